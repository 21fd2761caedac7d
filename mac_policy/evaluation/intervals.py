"""How sure a measured number is: bootstrap over training seeds and episodes, Wilson's interval for shares."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def two_level_interval(
    rewards: Sequence[NDArray[np.floating]], *, level: float = 0.95, draws: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """Percentile interval of the mean over seeds of the mean over episodes; one array of episodes a training seed.

    Seeds are resampled first, then episodes within each: episodes of one policy are near copies, so their spread
    alone would promise too much.
    """
    if not rewards or any(len(episodes) == 0 for episodes in rewards):
        raise ValueError("an interval needs at least one training seed, each with at least one episode")
    rng = np.random.default_rng(seed)
    # means[k] holds bootstrap means of seed k's episodes, one for each place it may take in each draw.
    means = np.stack([_episode_means(np.asarray(e, float), rng, draws * len(rewards)) for e in rewards])
    chosen = rng.integers(len(rewards), size=(draws, len(rewards)))
    column = np.arange(draws * len(rewards)).reshape(draws, len(rewards))
    found = means[chosen, column].mean(1)
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _episode_means(episodes: NDArray[np.floating], rng: np.random.Generator, count: int) -> NDArray[np.floating]:
    values, counts = np.unique(episodes, return_counts=True)
    # Resampling episodes is a multinomial draw of how often each distinct reward comes up.
    drawn = rng.multinomial(len(episodes), counts / len(episodes), size=count)
    means: NDArray[np.floating] = drawn @ values / len(episodes)
    return means


def wilson_interval(successes: int, trials: int, z: float = 1.96) -> tuple[float, float]:
    """The interval of a share.

    >>> [round(v, 3) for v in wilson_interval(50, 100)]
    [0.404, 0.596]
    """
    if not 0 <= successes <= trials or trials == 0:
        raise ValueError(f"{successes} successes in {trials} trials make no share")
    share = successes / trials
    scale = 1 + z**2 / trials
    middle = (share + z**2 / (2 * trials)) / scale
    half = z * math.sqrt(share * (1 - share) / trials + z**2 / (4 * trials**2)) / scale
    return max(0.0, middle - half), min(1.0, middle + half)
