"""How sure a mean over training seeds and test rows is: bootstrap over both.

The resamplings are the same for everything of a shape, so that numbers made from the same rows move together.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

DRAWS = 2000

Floats = NDArray[np.floating]


@lru_cache(maxsize=64)
def resampling(items: int, draws: int, seed: int) -> NDArray[np.float32]:
    """(draws, items): which share of each bootstrap sample each item has."""
    counts = np.random.default_rng(seed).multinomial(items, np.full(items, 1 / items), draws)
    return (counts / items).astype(np.float32)


def crossed_means(values: Floats, draws: int = DRAWS, seed: int = 0) -> Floats:
    """Bootstrap means (draws,) of (seeds, rows) where every seed was tested on the same rows.

    Seeds and rows are resampled independently of each other: a row that is hard is hard for every seed.
    """
    of_seeds, of_rows = (resampling(size, draws, seed + place) for place, size in enumerate(values.shape))
    means: Floats = ((of_seeds @ values) * of_rows).sum(1)
    return means


def nested_means(values: Sequence[Floats], draws: int = DRAWS, seed: int = 0) -> Floats:
    """Bootstrap means (draws,) where every seed has test rows of its own: seeds, then rows within each of them."""
    seeds = len(values)
    chosen = np.random.default_rng(seed).integers(seeds, size=(draws, seeds))
    # means[k] are those of seed k's rows, one for each place it may take in each draw.
    means = np.stack([resampling(len(rows), draws * seeds, seed + 1 + k) @ rows for k, rows in enumerate(values)])
    found: Floats = means[chosen, np.arange(draws * seeds).reshape(draws, seeds)].mean(1)
    return found


def summary(values: Sequence[Floats], shared_rows: bool, level: float = 0.95) -> dict[str, object]:
    """mean, ci95 and the means of the seeds, from one array of rows a seed.

    shared_rows: whether all seeds were tested on the same rows; otherwise rows are resampled within their seed.

    >>> import numpy as np
    >>> from mac_policy.likelihood.intervals import summary
    >>> summary([np.array([1.0, 1.0]), np.array([1.0, 1.0])], shared_rows=True)
    {'mean': 1.0, 'ci95': [1.0, 1.0], 'per_seed': [1.0, 1.0]}
    """
    if not values or any(len(rows) == 0 for rows in values):
        raise ValueError("an interval needs at least one training seed, each with at least one test row")
    means = crossed_means(np.stack(values)) if shared_rows else nested_means(values)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    per_seed = [float(np.mean(rows)) for rows in values]
    return {"mean": float(np.mean(per_seed)), "ci95": [float(low), float(high)], "per_seed": per_seed}
