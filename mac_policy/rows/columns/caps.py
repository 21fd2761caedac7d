"""How far a column of numbers reaches, whatever single wild cells say."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FAR = 3.0  # ranges between the caps
LONE = 2  # numbers that are so far on one side, at most; more of them are a group
FENCE = 3.0  # interquartile ranges beyond the quartiles, further where tails are heavy
RARE = 0.01


def caps(values: NDArray[np.float64]) -> tuple[float, float]:
    """The least and the greatest number (R,), without missing ones, that counts as usual.

    >>> import numpy as np
    >>> from mac_policy.rows.columns.caps import caps
    >>> caps(np.append(np.arange(101.0), 1e9))
    (-126.25, 227.25)
    """
    with np.errstate(over="ignore"):
        first, third = np.quantile(values, [0.25, 0.75])
        rare = np.quantile(values, RARE, method="higher")  # never the most extreme value
        common = np.quantile(values, 1 - RARE, method="lower")
        reach, wide = FENCE * (third - first), (common - rare) / 2  # columns with heavy tails keep them
        low, high = float(min(first - reach, rare - wide)), float(max(third + reach, common + wide))
    if not high > low:  # nearly all values are equal
        return float(values.min()), float(values.max())
    return low, high


def believable(values: NDArray[np.float64]) -> tuple[float, float]:
    """The least and the greatest number (R,), without missing ones, that is not taken for an error.

    An error is one of few numbers that are far beyond all others.

    >>> import numpy as np
    >>> from mac_policy.rows.columns.caps import believable
    >>> believable(np.append(np.arange(101.0), 1e9))
    (-1186.75, 1287.75)
    >>> believable(np.append(np.arange(1001.0), [1e9] * 5))[1]
    1000000000.0
    """
    low, high = caps(values)
    with np.errstate(over="ignore", invalid="ignore"):
        span = FAR * (high - low) if np.isfinite(high - low) else np.inf
        least, most = low - span, high + span
    below, above = values[values < least], values[values > most]
    least = float(below.min()) if len(below) > LONE else float(least)
    return least, float(above.max()) if len(above) > LONE else float(most)
