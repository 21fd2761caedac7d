"""Confidence intervals: of a mean over training seeds, of a share, of a statistic of a mean curve.

A training seed is one observation: the episodes or test rows of one training are near copies, so that their spread says
nothing about another training. Intervals are Student's over the seeds' means. A bootstrap over a few seeds is too
narrow: with five seeds a nominal 95% interval covers the truth 82 to 87% of the time, Student's 95%. No interval of a
few seeds covers a law under which a training fails rarely and completely: with one failure in seven trainings, five
seeds and a nominal 95%, Student's covers about 54%.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]

SEEDS = "training seeds"


class Mean(NamedTuple):
    """A mean over training seeds."""

    mean: float
    se: float | None
    """Standard error; None for a single observation."""
    ci95: list[float] | None
    """Ends of the interval; None for a single observation, which says nothing about its own spread."""
    over: str
    """What an observation of the interval is: 'training seeds', or what the rows are called."""
    per_seed: list[float]

    @property
    def interval(self) -> str:
        """The kind of interval in words."""
        return f"Student t over {self.over}"


def mean_over_seeds(values: Sequence[Floats], *, rows: str = "episodes", shared_rows: bool = False) -> Mean:
    """The mean over training seeds of the mean over rows, from one array of rows per seed.

    rows: what the rows are called. The interval is over the rows of all seeds where there is one seed, and where all
    seeds have the same mean, since their spread of zero does not exclude another one.
    shared_rows: all seeds are tested on the same rows, which are a sample themselves. The variance of the mean is then
    that of the seeds' means plus that of the rows' means, with Satterthwaite's degrees of freedom.

    >>> import numpy as np
    >>> from mac_policy.common.statistics import mean_over_seeds
    >>> found = mean_over_seeds([np.array([1.0, 2.0]), np.array([3.0, 2.0]), np.array([2.0, 2.0])])
    >>> found.mean, [round(end, 2) for end in found.ci95], found.interval
    (2.0, [0.76, 3.24], 'Student t over training seeds')
    """
    if not values or any(len(of_seed) == 0 for of_seed in values):
        raise ValueError("an interval needs at least one training seed, each with at least one row")
    per_seed = np.array([np.mean(of_seed, dtype=np.float64) for of_seed in values])
    alike = bool(np.ptp(per_seed) == 0)
    parts = [] if alike else [variance_of_mean(per_seed)]
    if shared_rows:
        parts.append(variance_of_mean(np.mean(np.stack(values), 0, dtype=np.float64)))
    elif alike:
        parts.append(variance_of_mean(np.concatenate(values)))
    over = rows if alike else f"{SEEDS} and {rows}" if shared_rows else SEEDS
    mean, known = float(per_seed.mean()), [part for part in parts if part is not None]
    if not known:
        return Mean(mean, None, None, over, per_seed.tolist())
    half = student_half_width(known)
    error = math.sqrt(sum(variance for variance, _ in known))
    return Mean(mean, error, [mean - half, mean + half], over, per_seed.tolist())


def summary(values: Sequence[Floats], shared_rows: bool, rows: str = "test rows") -> dict[str, object]:
    """`mean_over_seeds` as plain JSON.

    >>> import numpy as np
    >>> from mac_policy.common.statistics import summary
    >>> summary([np.array([1.0, 1.0]), np.array([1.0, 1.0])], shared_rows=True)
    {'mean': 1.0, 'ci95': [1.0, 1.0], 'interval': 'Student t over test rows', 'per_seed': [1.0, 1.0]}
    """
    found = mean_over_seeds(values, rows=rows, shared_rows=shared_rows)
    return {"mean": found.mean, "ci95": found.ci95, "interval": found.interval, "per_seed": found.per_seed}


def with_interval(found: Mapping[str, Any], form: str) -> str:
    """The mean and the ends of its interval as a cell of a table.

    >>> from mac_policy.common.statistics import with_interval
    >>> with_interval({"mean": 1.0, "ci95": [0.5, 1.5]}, ".1f"), with_interval({"mean": 1.0, "ci95": None}, ".1f")
    ('1.0 [0.5, 1.5]', '1.0')
    """
    mean, ends = format(found["mean"], form), found["ci95"]
    return mean if ends is None else f"{mean} [{ends[0]:{form}}, {ends[1]:{form}}]"


def variance_of_mean(values: Floats) -> tuple[float, int] | None:
    """The variance of the mean of independent values, with its degrees of freedom; None for a single value."""
    if len(values) < 2:
        return None
    return float(np.var(values, ddof=1, dtype=np.float64)) / len(values), len(values) - 1


def student_half_width(variances: Sequence[tuple[float, int]]) -> float:
    """Half the width of Student's 95% interval of a mean whose variance is the sum of `variances`, each with its
    degrees of freedom; those of the sum are Satterthwaite's."""
    from scipy.special import stdtrit

    total = sum(variance for variance, _ in variances)
    spread = sum(variance**2 / freedom for variance, freedom in variances)
    return float(stdtrit(total**2 / spread, 0.975)) * math.sqrt(total) if spread else 0.0


def jackknife_intervals(units: Floats, statistic: Callable[[Floats], Floats]) -> Floats:
    """Student's 95% intervals of statistics of a mean, (..., 2), by leaving out one unit after the other.

    units: (n, ...) observations; statistic: maps means (m, ...) to values (m, ...). For a statistic that is linear in
    the mean this is Student's interval over the units. NaN for a single unit and where a statistic is NaN.
    """
    count = len(units)
    mean = units.mean(0, dtype=np.float64)
    whole = statistic(mean[None])[0]
    without = statistic((count * mean - units) / (count - 1)) if count > 1 else np.full((1, *whole.shape), np.nan)
    # The variance of pseudo-values count * whole - (count - 1) * without, divided by their number.
    error = np.sqrt((count - 1) / count * np.square(without - without.mean(0)).sum(0))
    half = student_half_width([(1.0, max(count - 1, 1))]) * error
    return np.stack([whole - half, whole + half], -1)


def share_interval(successes: Sequence[int], trials: Sequence[int]) -> tuple[list[float], str]:
    """The 95% interval of a share from the successes and trials of each training seed, and its kind in words.

    Wilson's where there is one seed, or where all seeds have the same share; otherwise Student's over the seeds'
    shares, cut off at 0 and 1.

    >>> from mac_policy.common.statistics import share_interval
    >>> share_interval([10], [10])[1], share_interval([9, 10, 8], [10, 10, 10])[1]
    ('Wilson', 'Student t over training seeds')
    """
    shares = np.array([wins / of for wins, of in zip(successes, trials, strict=True)])
    found = variance_of_mean(shares)
    if found is None or np.ptp(shares) == 0:
        return list(wilson_interval(sum(successes), sum(trials))), "Wilson"
    mean, half = float(shares.mean()), student_half_width([found])
    return [max(0.0, mean - half), min(1.0, mean + half)], f"Student t over {SEEDS}"


def wilson_interval(successes: int, trials: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's 95% interval of the share of one binomial sample.

    >>> from mac_policy.common.statistics import wilson_interval
    >>> [round(end, 3) for end in wilson_interval(50, 100)]
    [0.404, 0.596]
    """
    if not 0 <= successes <= trials or trials == 0:
        raise ValueError(f"{successes} successes in {trials} trials make no share")
    share = successes / trials
    scale = 1 + z**2 / trials
    middle = (share + z**2 / (2 * trials)) / scale
    half = z * math.sqrt(share * (1 - share) / trials + z**2 / (4 * trials**2)) / scale
    return max(0.0, middle - half), min(1.0, middle + half)
