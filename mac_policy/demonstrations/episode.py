"""An episode, and the source of a set of episodes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]
Indices = NDArray[np.int64]

Completions = Callable[[Floats], Mapping[str, int]]
"""From an episode's observations (T+1, obs) to the step at which each goal was completed, in that order."""

ARRAYS = ("observations", "actions", "rewards", "terminations", "truncations", "executed")
"""The arrays of an episode; `executed` may be None."""


@dataclass(frozen=True)
class Episode:
    """One episode of T steps.

    >>> import numpy as np
    >>> zeros, no = np.zeros(5, np.float32), np.zeros(5, bool)
    >>> len(Episode(np.zeros((6, 3), np.float32), np.zeros((5, 2), np.float32), zeros, no, no))
    5
    """

    observations: Floats
    """(T+1, obs); the last row is the one after the last action (repeated when the source has none)."""
    actions: Floats
    """(T, act): the labels to train on."""
    rewards: Floats
    """(T,)"""
    terminations: Bools
    """(T,)"""
    truncations: Bools
    """(T,)"""
    completed: tuple[str, ...] = ()
    """The goals completed, in the order of completion."""
    executed: Floats | None = None
    """(T, act): the executed actions, where they differ from the labels (collection noise)."""
    seed: int | None = None
    labels: Indices | None = None
    """(T, L): the class of each label at each step, -1 where it is not known."""

    def __len__(self) -> int:
        return len(self.actions)


@dataclass(frozen=True)
class Source:
    """The source of demonstrations, which every result made with them records."""

    name: str
    kind: str
    """'human', 'scripted', or the format ('minari', 'd4rl') where the data set does not say."""
    sha256: str
    """Of the content as loaded (`content_sha256`), whatever file format it came from."""
    episodes: int
    steps: int
    location: str = ""
    """The file, folder or data-set id that was read."""

    def as_dict(self) -> dict[str, object]:
        """The `dataset` entry of results.json and of a policy's config.json."""
        entry = asdict(self)
        return {"name": entry.pop("name"), "source": entry.pop("kind"), **entry}


def content_sha256(episodes: Iterable[Episode]) -> str:
    """sha256 of the content of episodes: every array with its shape, the completions and the seeds.

    The same episodes give the same digest whatever file format they were read from.
    """
    digest = hashlib.sha256()
    for episode in episodes:
        digest.update(repr((episode.completed, episode.seed)).encode())
        for name in ARRAYS:
            values = getattr(episode, name)
            if values is not None:
                digest.update(f"{name}{values.shape}".encode())
                digest.update(np.ascontiguousarray(values).data)
    return digest.hexdigest()
