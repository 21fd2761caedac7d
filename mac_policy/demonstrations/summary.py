"""Moments of a data set, for normalising, and its summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mac_policy.demonstrations.episode import Episode, Floats

CONSTANT = 1e-6


class Moments(NamedTuple):
    """Per dimension, (D,) float32 each."""

    mean: Floats
    std: Floats
    """1 where the dimension is constant, so that (x - mean) / std is 0 there and never infinite."""
    low: Floats
    high: Floats


class Statistics(NamedTuple):
    """Moments of the flat observations and actions."""

    observations: Moments
    actions: Moments


class Summary(NamedTuple):
    """Counts and ranges of a data set."""

    episodes: int
    steps: int
    lengths: tuple[int, float, int]
    """Shortest, mean, longest."""
    return_mean: float
    completed: dict[str, int]
    """How many episodes completed each goal, the most frequent first."""
    completions: dict[int, int]
    """How many episodes completed n goals."""
    statistics: Statistics
    executed_differ: int
    """Episodes whose executed actions differ from their labels."""


def moments(values: Floats) -> Moments:
    """Mean, standard deviation and range over the rows of (S, D), summed in float64."""
    mean = values.mean(axis=0, dtype=np.float64)
    std = values.std(axis=0, dtype=np.float64)
    scale = np.maximum(np.abs(mean), 1.0)
    std = np.where(std <= CONSTANT * scale, 1.0, std)
    return Moments(mean.astype(np.float32), std.astype(np.float32), values.min(axis=0), values.max(axis=0))


def summarise(episodes: Sequence[Episode], statistics: Statistics) -> Summary:
    """The summary of some episodes, given the statistics of their flat views."""
    lengths = [len(episode) for episode in episodes]
    completed = Counter(task for episode in episodes for task in episode.completed)
    counts = Counter(len(episode.completed) for episode in episodes)
    return Summary(
        episodes=len(episodes),
        steps=sum(lengths),
        lengths=(min(lengths), sum(lengths) / len(lengths), max(lengths)),
        return_mean=float(np.mean([episode.rewards.sum() for episode in episodes])),
        completed=dict(completed.most_common()),
        completions=dict(sorted(counts.items())),
        statistics=statistics,
        executed_differ=sum(episode.executed is not None for episode in episodes),
    )
