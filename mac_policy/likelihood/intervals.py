"""How sure a mean over training seeds and test rows is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mac_policy.autonomy.intervals import two_level_interval

BLOCK = 256  # bootstrap draws at once

Floats = NDArray[np.floating]


def crossed_interval(values: Floats, *, level: float = 0.95, draws: int = 4000, seed: int = 0) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean of (seeds, rows), where every seed was tested on the same rows.

    Seeds and rows are resampled independently of each other: a row that is hard is hard for every seed.

    >>> import numpy as np
    >>> from mac_policy.likelihood.intervals import crossed_interval
    >>> low, high = crossed_interval(np.array([[1.0, 2.0], [2.0, 3.0]]))
    >>> low <= 2.0 <= high
    True
    """
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(f"an interval needs values of (seeds, rows), at least one of each, got {values.shape}")
    rng = np.random.default_rng(seed)
    seeds, rows = values.shape
    means = []
    for begin in range(0, draws, BLOCK):
        size = min(BLOCK, draws - begin)
        of_seeds = rng.multinomial(seeds, np.full(seeds, 1 / seeds), size) / seeds
        of_rows = rng.multinomial(rows, np.full(rows, 1 / rows), size) / rows
        means.append(((of_seeds @ values) * of_rows).sum(1))
    low, high = np.quantile(np.concatenate(means), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def summary(values: Sequence[Floats], shared_rows: bool) -> dict[str, object]:
    """mean, ci95 and the means of the seeds, one array of rows a seed.

    shared_rows: whether all seeds were tested on the same rows; otherwise rows are resampled within their seed.
    """
    interval = crossed_interval(np.stack(values)) if shared_rows else two_level_interval(values)
    per_seed = [float(np.mean(row)) for row in values]
    return {"mean": float(np.mean(per_seed)), "ci95": list(interval), "per_seed": per_seed}
