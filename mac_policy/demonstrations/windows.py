"""Windows of history and horizon as index arrays into the flat views."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mac_policy.demonstrations.episode import Bools, Indices


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


def windows(lengths: Indices, *, history: int = 1, horizon: int = 1) -> Windows:
    """Windows over episodes of the given lengths (E,); none reaches into another episode."""
    for name, size in (("history", history), ("horizon", horizon)):
        if size < 1:
            raise ValueError(f"{name} is {size}; it must be at least 1")
    ends = np.cumsum(lengths)
    first = np.repeat(ends - lengths, lengths)[:, None]  # (S, 1)
    last = np.repeat(ends - 1, lengths)[:, None]
    step = np.arange(len(first), dtype=np.int64)[:, None]
    ahead = step + np.arange(horizon)
    return Windows(
        history=np.maximum(step + np.arange(1 - history, 1), first),
        horizon=np.minimum(ahead, last),
        inside=ahead <= last,
    )
