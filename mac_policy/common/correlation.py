"""Correlations of actions with what is observed after them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LEAST_OFFSET = 0.7
"""Correlation of an action with the change of a reading from which the action counts as moving it."""


def transitions(
    observations: NDArray[np.float32], actions: NDArray[np.float32], episode_index: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Actions (T, act), and the observations (T, obs) before and after them, within episodes."""
    same = np.flatnonzero(episode_index[1:] == episode_index[:-1])
    read = observations.astype(np.float64)
    return actions[same].astype(np.float64), read[same], read[same + 1]


def correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """(S, n), (S, m) -> correlations (n, m); zero where a column never varies."""
    first, second = first - first.mean(0), second - second.mean(0)
    scale = np.outer(first.std(0), second.std(0)) * len(first)
    product: NDArray[np.float64] = first.T @ second
    np.divide(product, scale, out=product, where=scale > 1e-12)
    return product
