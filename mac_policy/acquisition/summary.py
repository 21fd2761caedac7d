"""What the curves of several splits come to: means with intervals, and how many variables an order needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]

DRAWS = 2000

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
    """After how many variables a curve (..., D + 1) first comes down to its level (...), straight between numbers.

    D where it never does.

    >>> import numpy as np
    >>> from mac_policy.acquisition.summary import number_needed
    >>> number_needed(np.array([[4.0, 3.0, 1.0]]), np.array([2.0]))
    array([1.5])
    """
    reached = curves <= level[..., None]
    after = np.where(reached.any(-1), reached.argmax(-1), curves.shape[-1] - 1)
    before = np.maximum(after - 1, 0)
    high = np.take_along_axis(curves, before[..., None], -1)[..., 0]
    low = np.take_along_axis(curves, after[..., None], -1)[..., 0]
    share = np.where(high > low, (high - level) / np.where(high > low, high - low, 1.0), 1.0)
    found: Floats = np.where(after == 0, 0.0, before + np.clip(share, 0.0, 1.0))
    return np.where(reached.any(-1), found, float(curves.shape[-1] - 1))


def half_way(curves: Floats) -> Floats:
    """Half of the way from the error with nothing known to that with everything. (...)"""
    middle: Floats = (curves[..., 0] + curves[..., -1]) / 2
    return middle


def summarised(per_seed: Sequence[Mapping[str, Floats]], orders: Sequence[str]) -> dict[str, Any]:
    """Of one arm, from the measured tensors of each seed: by metric the curves of the orders and what they need.

    needed: variables until the half-way error of the random order; fewer: how many fewer than the random order needs,
    paired; both with 95% intervals.
    """
    return {metric: _of_metric(per_seed, orders, metric) for metric in METRICS}


def _of_metric(per_seed: Sequence[Mapping[str, Floats]], orders: Sequence[str], metric: str) -> dict[str, Any]:
    curves = {
        order: bootstrap_curves([seed[f"{order}.{METRICS[metric]}"] for seed in per_seed], metric) for order in orders
    }
    level = half_way(curves["random"])
    needed = {order: number_needed(found, level) for order, found in curves.items()}
    return {
        "half_way": _interval(level),
        "orders": {
            order: {
                "mean": found[0].tolist(),
                "ci95": np.quantile(found[1:], [0.025, 0.975], axis=0).T.tolist(),
                "needed": _interval(needed[order]),
                "fewer": _interval(needed["random"] - needed[order]),
            }
            for order, found in curves.items()
        },
    }


def _interval(values: Floats) -> dict[str, Any]:
    """Of a measured value and its bootstrap draws."""
    return {"mean": float(values[0]), "ci95": np.quantile(values[1:], [0.025, 0.975]).tolist()}
