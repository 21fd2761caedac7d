"""Demonstrations: episodes of one task, with flat views for training, their moments and their summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mac_policy.common.checks import check_count, is_number
from mac_policy.demonstrations.checks import check_episodes, check_types
from mac_policy.demonstrations.episode import Bools, Episode, Floats, Indices, Source, content_sha256

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


class Windows(NamedTuple):
    """For each step s: the flat rows observed up to it and those executed from it on.

    observations[windows.history] is (S, history, obs), actions[windows.horizon] is (S, horizon, act).
    """

    history: Indices
    """(S, history) rows s-history+1 .. s; before an episode's start its first row repeats."""
    horizon: Indices
    """(S, horizon) rows s .. s+horizon-1; beyond an episode's end its last row repeats."""
    inside: Bools
    """(S, horizon) False where the last row was repeated: not a label."""


@dataclass(frozen=True)
class Demonstrations:
    """Episodes of one task, with flat views for training.

    Observations after an episode's last action are in the episodes but not in the flat views: row s of
    `observations` was observed when row s of `actions` was chosen.

    >>> import numpy as np
    >>> from mac_policy import Episode
    >>> zeros, no = np.zeros(5, np.float32), np.zeros(5, bool)
    >>> episode = Episode(np.zeros((6, 3), np.float32), np.zeros((5, 2), np.float32), zeros, no, no)
    >>> demos = Demonstrations.of([episode] * 4, name="reach", kind="human")
    >>> demos.observations.shape, demos.actions.shape
    ((20, 3), (20, 2))
    """

    episodes: tuple[Episode, ...]
    source: Source

    def __post_init__(self) -> None:
        name, location = self.source.name, self.source.location
        check_episodes(self.episodes, f"{name} ({location})" if location else name)

    @classmethod
    def of(cls, episodes: Sequence[Episode], *, name: str, kind: str, location: str = "") -> Demonstrations:
        """Demonstrations whose source is made from their content."""
        episodes = check_types(episodes, name)
        steps = sum(len(episode) for episode in episodes)
        source = Source(name, kind, content_sha256(episodes), len(episodes), steps, location)
        return cls(episodes, source)

    def __len__(self) -> int:
        return len(self.episodes)

    @property
    def steps(self) -> int:
        return int(self.lengths.sum())

    @property
    def observation_dim(self) -> int:
        return int(self.episodes[0].observations.shape[1])

    @property
    def action_dim(self) -> int:
        return int(self.episodes[0].actions.shape[1])

    @cached_property
    def lengths(self) -> Indices:
        """(E,) steps of each episode."""
        return np.array([len(episode) for episode in self.episodes], dtype=np.int64)

    @cached_property
    def observations(self) -> Floats:
        """(S, obs) float32, contiguous."""
        return np.concatenate([episode.observations[:-1] for episode in self.episodes])

    @cached_property
    def actions(self) -> Floats:
        """(S, act) float32, contiguous."""
        return np.concatenate([episode.actions for episode in self.episodes])

    @cached_property
    def rewards(self) -> Floats:
        """(S,) float32."""
        return np.concatenate([episode.rewards for episode in self.episodes])

    @cached_property
    def labels(self) -> Indices | None:
        """(S, L): the class of each label, -1 where it is not known; None without labels."""
        found = [episode.labels for episode in self.episodes]
        if any(part is None for part in found):
            return None
        return np.concatenate([part for part in found if part is not None])

    def ahead(self, observed: int, steps: int) -> Floats:
        """(S,): an observed number as it is `steps` later, or at the end of the episode where that comes sooner."""
        found = []
        for episode in self.episodes:
            later = np.minimum(np.arange(len(episode)) + steps, len(episode))
            found.append(episode.observations[later, observed])
        return np.concatenate(found)

    @cached_property
    def episode_index(self) -> Indices:
        """(S,) the episode each flat row belongs to."""
        return np.repeat(np.arange(len(self.episodes), dtype=np.int64), self.lengths)

    def select(self, indices: Sequence[int] | Indices) -> Demonstrations:
        """The demonstrations of some episodes; the source keeps the name and hash of the whole set."""
        found = np.asarray(indices)
        if found.ndim != 1 or found.dtype.kind not in "iu":
            raise ValueError(f"indices must be a list of whole numbers, got {indices!r}")
        chosen = tuple(self.episodes[int(i)] for i in found)
        steps = sum(len(episode) for episode in chosen)
        return Demonstrations(chosen, replace(self.source, episodes=len(chosen), steps=steps))

    def split(self, fraction: float, seed: int) -> tuple[Demonstrations, Demonstrations]:
        """Split by episode: `fraction` of the episodes and the rest, each at least one episode.

        Neighbouring steps are near copies: with a split by step the held-out loss would measure the training data.
        """
        check_count("seed", seed, 0)
        if not (is_number(fraction) and 0 < fraction < 1):
            raise ValueError(f"fraction is {fraction}; it must lie strictly between 0 and 1")
        if len(self) < 2:
            raise ValueError(f"cannot split {len(self)} episode in two; a split is by whole episodes")
        order = np.random.default_rng(seed).permutation(len(self.episodes))
        first = min(max(round(fraction * len(order)), 1), len(order) - 1)
        return self.select(np.sort(order[:first])), self.select(np.sort(order[first:]))

    def windows(self, history: int = 1, horizon: int = 1) -> Windows:
        """Rows of the flat views in the history and the horizon of every step, none of another episode."""
        check_count("history", history)
        ends = np.cumsum(self.lengths)
        first, last = (np.repeat(at, self.lengths)[:, None] for at in (ends - self.lengths, ends - 1))  # (S, 1) each
        step = np.arange(len(first), dtype=np.int64)[:, None]
        ahead = step + np.arange(check_count("horizon", horizon))
        behind = step + np.arange(1 - history, 1)
        return Windows(np.maximum(behind, first), horizon=np.minimum(ahead, last), inside=ahead <= last)

    def statistics(self) -> Statistics:
        """Mean, standard deviation and range of every dimension."""
        return Statistics(moments(self.observations), moments(self.actions))

    def summary(self) -> Summary:
        """Counts and ranges to look at before training."""
        counts = Counter(len(episode.completed) for episode in self.episodes)
        return Summary(
            episodes=len(self),
            steps=self.steps,
            lengths=(int(self.lengths.min()), self.steps / len(self), int(self.lengths.max())),
            return_mean=float(np.mean([episode.rewards.sum() for episode in self.episodes])),
            completed=dict(Counter(goal for episode in self.episodes for goal in episode.completed).most_common()),
            completions=dict(sorted(counts.items())),
            statistics=self.statistics(),
            executed_differ=sum(episode.executed is not None for episode in self.episodes),
        )


def moments(values: Floats) -> Moments:
    """Mean, standard deviation and range over the rows of (S, D), summed in float64."""
    mean = values.mean(axis=0, dtype=np.float64)
    std = values.std(axis=0, dtype=np.float64)
    scale = np.maximum(np.abs(mean), 1.0)
    std = np.where(std <= CONSTANT * scale, 1.0, std)
    return Moments(mean.astype(np.float32), std.astype(np.float32), values.min(axis=0), values.max(axis=0))
