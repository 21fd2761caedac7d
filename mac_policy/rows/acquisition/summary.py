"""What the curves of several splits come to: means with intervals, and how many variables an order needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]

DRAWS = 2000
LOST = 0.025  # of the bootstrap draws may be without a half-way error

METRICS = {"rmse": "squared", "nll": "nll"}


def bootstrap_curves(per_seed: Sequence[Floats], metric: str) -> Floats:
    """Curves (1 + draws, D + 1) from one array (rows, D + 1) a seed: first the measured one, then bootstrap draws.

    Splits are resampled, and rows within them; the draws of two orders are of the same splits and rows. Squared errors
    become their root after the mean.
    """
    steps = per_seed[0].shape[1]
    found = np.stack(
        [
            np.concatenate([[np.mean([rows[:, k].mean() for rows in per_seed])], _draws(per_seed, k)])
            for k in range(steps)
        ],
        1,
    )
    return np.sqrt(found) if metric == "rmse" else found


def _draws(per_seed: Sequence[Floats], step: int) -> Floats:
    return nested_means([np.asarray(rows[:, step], np.float64) for rows in per_seed])


@lru_cache(maxsize=64)
def resampling(items: int, draws: int, seed: int) -> NDArray[np.float32]:
    """(draws, items): which share of each bootstrap sample each item has."""
    counts = np.random.default_rng(seed).multinomial(items, np.full(items, 1 / items), draws)
    return (counts / items).astype(np.float32)


def nested_means(values: Sequence[Floats], draws: int = DRAWS, seed: int = 0) -> Floats:
    """Bootstrap means (draws,) where every seed has test rows of its own: seeds, then rows within each of them.

    The resamplings are the same for everything of a shape, so that numbers made from the same rows move together.
    """
    seeds = len(values)
    chosen = np.random.default_rng(seed).integers(seeds, size=(draws, seeds))
    # means[k] are those of seed k's rows, one for each place it may take in each draw.
    means = np.stack([resampling(len(rows), draws * seeds, seed + 1 + k) @ rows for k, rows in enumerate(values)])
    found: Floats = means[chosen, np.arange(draws * seeds).reshape(draws, seeds)].mean(1)
    return found


def number_needed(curves: Floats, level: Floats) -> Floats:
    """After how many variables the running minimum of a curve (..., D + 1) comes down to its level (...), straight
    between numbers; D where it never does, NaN where the level is.

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
    """Half of the way from the error with nothing known to that with everything; NaN where that is no lower. (...)

    >>> import numpy as np
    >>> from mac_policy.rows.acquisition.summary import half_way
    >>> half_way(np.array([[4.0, 3.0, 1.0], [1.0, 2.0, 3.0]]))
    array([2.5, nan])
    """
    first, last = curves[..., 0], curves[..., -1]
    return np.where(last < first, (first + last) / 2, np.nan)


def summarised(per_seed: Sequence[Mapping[str, Floats]], orders: Sequence[str]) -> dict[str, Any]:
    """Of one arm, from the measured tensors of each seed: by metric the curves of the orders and what they need.

    area: the mean of the error over 0, 1, ..., D variables known, on one scale for all arms and orders; needed:
    variables until the half-way error of the random order; fewer: how many fewer than the random order needs, paired.
    Each with a 95% interval and the value of each seed. The half-way error is the arm's own: `needed` and `fewer` say
    nothing of one arm beside another. They are None where knowing everything is no better than knowing nothing.
    """
    return {metric: _of_metric(per_seed, orders, metric) for metric in METRICS}


def _of_metric(per_seed: Sequence[Mapping[str, Floats]], orders: Sequence[str], metric: str) -> dict[str, Any]:
    of_orders = {order: [seed[f"{order}.{METRICS[metric]}"] for seed in per_seed] for order in orders}
    curves = {order: _with_seeds(rows, metric) for order, rows in of_orders.items()}
    level = half_way(curves["random"])
    needed = {order: number_needed(found, level) for order, found in curves.items()}
    seeds = len(per_seed)
    return {
        "half_way": _interval(level, seeds),
        "orders": {
            order: {
                "mean": found[seeds].tolist(),
                "ci95": np.quantile(found[seeds + 1 :], [0.025, 0.975], axis=0).T.tolist(),
                "area": _interval(found.mean(-1), seeds),
                "needed": _interval(needed[order], seeds),
                "fewer": _interval(needed["random"] - needed[order], seeds),
            }
            for order, found in curves.items()
        },
    }


def _with_seeds(per_seed: Sequence[Floats], metric: str) -> Floats:
    """Curves (seeds + 1 + draws, D + 1): of each seed alone, of all, and the bootstrap draws of all."""
    alone = np.stack([np.asarray(rows, np.float64).mean(0) for rows in per_seed])
    return np.concatenate([np.sqrt(alone) if metric == "rmse" else alone, bootstrap_curves(per_seed, metric)])


def _interval(values: Floats, seeds: int) -> dict[str, Any] | None:
    """Of the values of each seed, of all, and of bootstrap draws; None where there is none of all, or of so many draws
    that an interval would be of the others. Single draws without one are left out."""
    alone, measured, draws = values[:seeds], values[seeds], values[seeds + 1 :]
    if np.isnan(measured) or np.isnan(draws).mean() > LOST:
        return None
    return {
        "mean": float(measured),
        "ci95": np.nanquantile(draws, [0.025, 0.975]).tolist(),
        "per_seed": [None if np.isnan(value) else float(value) for value in alone],
    }
