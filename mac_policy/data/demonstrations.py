"""Demonstrations: what was observed and done, episode by episode."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Episode:
    """One episode of T steps."""

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
    """The tasks done, in the order they were done."""
    executed: Floats | None = None
    """(T, act): the actions really executed, where they differ from the labels (collection noise)."""
    seed: int | None = None

    def __len__(self) -> int:
        return len(self.actions)
