"""Summaries of error curves over several splits: means with intervals, and the number of variables needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mac_policy.common.statistics import jackknife_intervals

Floats = NDArray[np.floating[Any]]

METRICS = {"rmse": "squared", "nll": "nll"}


def number_needed(curves: Floats, level: Floats) -> Floats:
    """The number of variables at which the running minimum of a curve (..., D + 1) reaches its level (...).

    Interpolated linearly; D if the level is never reached, NaN if the level is NaN.

    >>> import numpy as np
    >>> from mac_policy.rows.acquisition.summary import number_needed
    >>> number_needed(np.array([[4.0, 5.0, 1.0]]), np.array([2.5]))
    array([1.5])
    """
    lowest = np.minimum.accumulate(curves, -1)
    reached = lowest <= level[..., None]
    after = np.where(reached.any(-1), reached.argmax(-1), curves.shape[-1] - 1)
    before = np.maximum(after - 1, 0)
    high = np.take_along_axis(lowest, before[..., None], -1)[..., 0]
    low = np.take_along_axis(lowest, after[..., None], -1)[..., 0]
    share = np.where(high > low, (high - level) / np.where(high > low, high - low, 1.0), 1.0)
    found: Floats = np.where(after == 0, 0.0, before + np.clip(share, 0.0, 1.0))
    found = np.where(reached.any(-1), found, float(curves.shape[-1] - 1))
    return np.where(np.isnan(level), np.nan, found)


def half_way(curves: Floats) -> Floats:
    """The mean of the errors with no and with all variables known, (...); NaN where the latter is not lower.

    >>> import numpy as np
    >>> from mac_policy.rows.acquisition.summary import half_way
    >>> half_way(np.array([[4.0, 3.0, 1.0], [1.0, 2.0, 3.0]]))
    array([2.5, nan])
    """
    first, last = curves[..., 0], curves[..., -1]
    return np.where(last < first, (first + last) / 2, np.nan)


def summarised(per_seed: Sequence[Mapping[str, Floats]], orders: Sequence[str]) -> dict[str, Any]:
    """The summary of one arm from the measured tensors of each seed: for each metric, the curve of every order and

    area: mean error over 0, 1, ..., D known variables, comparable between arms and orders
    needed: number of variables at which the half-way error of the random order is reached
    fewer: number of variables saved compared to the random order, paired

    Each has Student's 95% interval over splits (over rows for a single split) and the value of each seed. The half-way
    error belongs to the arm: `needed` and `fewer` do not compare arms. Both are None if a split has no half-way error,
    because its error with all variables known is not lower than with none known.
    """
    return {metric: _of_metric(per_seed, orders, metric) for metric in METRICS}


def paired_areas(
    first: Sequence[Mapping[str, Floats]], second: Sequence[Mapping[str, Floats]], orders: Sequence[str]
) -> dict[str, Any]:
    """For each metric and order, the difference `second` - `first` of the areas of two arms on the same splits and
    rows, with Student's 95% interval over splits (over rows for a single split) and the difference of each seed."""
    return {metric: _paired(first, second, orders, metric) for metric in METRICS}


def _paired(
    first: Sequence[Mapping[str, Floats]], second: Sequence[Mapping[str, Floats]], orders: Sequence[str], metric: str
) -> dict[str, Any]:
    rows = [
        np.concatenate([one, other], 1)
        for one, other in zip(_rows(first, orders, metric), _rows(second, orders, metric), strict=True)
    ]
    curves = np.stack([of_seed.mean(0) for of_seed in rows])  # (seeds, 2 * orders, D + 1)

    def difference(means: Floats) -> Floats:
        one, other = np.split(_error(means, metric).mean(-1), 2, axis=-1)
        found: Floats = other - one
        return found

    found = _estimates(difference, curves, curves if len(curves) > 1 else rows[0])
    return dict(zip(orders, found, strict=True))


def _rows(per_seed: Sequence[Mapping[str, Floats]], orders: Sequence[str], metric: str) -> list[Floats]:
    """The errors of each seed's test rows, (rows, orders, D + 1)."""
    return [np.stack([np.float64(seed[f"{name}.{METRICS[metric]}"]) for name in orders], 1) for seed in per_seed]


def _error(means: Floats, metric: str) -> Floats:
    return np.sqrt(means) if metric == "rmse" else means


def _of_metric(per_seed: Sequence[Mapping[str, Floats]], orders: Sequence[str], metric: str) -> dict[str, Any]:
    rows = _rows(per_seed, orders, metric)
    curves = np.stack([of_seed.mean(0) for of_seed in rows])  # (seeds, orders, D + 1)
    units = curves if len(curves) > 1 else rows[0]
    random = list(orders).index("random")

    def error(means: Floats) -> Floats:
        return _error(means, metric)

    def half(means: Floats) -> Floats:
        return half_way(error(means)[:, random])[:, None]

    def needed(means: Floats) -> Floats:
        return number_needed(error(means), half(means))

    def fewer(means: Floats) -> Floats:
        return needed(means)[:, [random]] - needed(means)

    statistics = {"area": lambda means: error(means).mean(-1), "needed": needed, "fewer": fewer}
    found = {name: _estimates(statistic, curves, units) for name, statistic in statistics.items()}
    ends = jackknife_intervals(units, error)
    return {
        "interval": f"Student t over {'splits' if len(curves) > 1 else 'rows'}",
        "half_way": _estimates(half, curves, units)[0],
        "orders": {
            order: {
                "mean": error(curves.mean(0))[place].tolist(),
                "ci95": None if np.isnan(ends).any() else ends[place].tolist(),
                **{name: estimates[place] for name, estimates in found.items()},
            }
            for place, order in enumerate(orders)
        },
    }


def _estimates(statistic: Callable[[Floats], Floats], curves: Floats, units: Floats) -> list[dict[str, Any] | None]:
    """For each order, the statistic of the mean curve, its interval and the statistic of each seed's curve; None if the
    statistic of a seed is NaN."""
    whole, per_seed = statistic(curves.mean(0)[None])[0], statistic(curves)
    ends = jackknife_intervals(units, statistic)
    return [
        None
        if np.isnan(per_seed[:, place]).any()
        else {
            "mean": float(value),
            "ci95": None if np.isnan(ends[place]).any() else ends[place].tolist(),
            "per_seed": per_seed[:, place].tolist(),
        }
        for place, value in enumerate(whole)
    ]
