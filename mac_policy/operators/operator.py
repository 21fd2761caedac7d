"""Operators: who commands some dims of the action, as a person, a simple policy or a recording would.

An operator serves B environments at once. All randomness of an episode comes from that episode's seed, so that
the same episode brings the same commands whatever fills in the rest, and whichever row it runs in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from mac_policy.common.checks import check_count
from mac_policy.operators.dims import OperatorDims
from mac_policy.policies.policy import Policy


class Command(NamedTuple):
    """What is commanded: `values` count only where `mask` is true."""

    values: NDArray[np.float32]
    """(B, n)"""
    mask: NDArray[np.bool_]
    """(B, n)"""


class Operator(ABC):
    """Commands some dims of n-dimensional actions in `batch` environments.

    >>> operator = ZeroOperator(OperatorDims.parse(2, action_dim=3))
    >>> operator.reset()
    >>> operator(np.zeros(4)).mask
    array([ True,  True, False])
    """

    def __init__(self, action_dim: int, batch: int = 1) -> None:
        self.action_dim = action_dim
        self.batch = check_count("batch", batch)
        self._begun = False

    def reset(self, rows: ArrayLike | None = None, seeds: ArrayLike = 0) -> None:
        """The rows (B,) that are true begin new episodes with these seeds ((B,) or one); by default all rows."""
        chosen = np.ones(self.batch, bool) if rows is None else np.asarray(rows, bool)
        given = np.broadcast_to(np.asarray(seeds, np.int64), (self.batch,))
        if chosen.shape != (self.batch,):
            raise ValueError(f"rows must be ({self.batch},) booleans, got shape {chosen.shape}")
        self._begun = True
        self.begin(chosen, given)

    def __call__(self, observations: ArrayLike) -> Command:
        """(B, obs) -> (B, n) each; a single observation (obs,) gives (n,) each."""
        seen = np.asarray(observations, np.float32)
        rows = seen[None] if seen.ndim == 1 else seen
        if rows.ndim != 2 or len(rows) != self.batch:
            raise ValueError(f"observations must be ({self.batch}, obs), got {seen.shape}")
        if not self._begun:
            self.reset()
        command = self.command(rows)
        return Command(command.values[0], command.mask[0]) if seen.ndim == 1 else command

    @abstractmethod
    def begin(self, rows: NDArray[np.bool_], seeds: NDArray[np.int64]) -> None:
        """The rows (B,) that are true begin new episodes."""

    @abstractmethod
    def command(self, observations: NDArray[np.float32]) -> Command:
        """(B, obs) -> the commands of this step."""


class HoldingOperator(Operator):
    """An operator that holds the dims of a rule all the time; a subclass says with which values."""

    def __init__(self, dims: OperatorDims, batch: int = 1) -> None:
        super().__init__(dims.action_dim, batch)
        self.dims = dims
        self._seeds = np.zeros(batch, np.int64)
        self._steps = np.zeros(batch, np.int64)

    def begin(self, rows: NDArray[np.bool_], seeds: NDArray[np.int64]) -> None:
        self._seeds = np.where(rows, seeds, self._seeds)
        self._steps = np.where(rows, 0, self._steps)

    def command(self, observations: NDArray[np.float32]) -> Command:
        mask = self.dims.masks(self._seeds, self._steps)
        values = self.values(observations)
        self._steps = self._steps + 1
        return Command(values.astype(np.float32, copy=False), mask & self.holding())

    @abstractmethod
    def values(self, observations: NDArray[np.float32]) -> NDArray[np.floating]:
        """(B, obs) -> (B, n)."""

    def holding(self) -> NDArray[np.bool_]:
        """(B, 1): rows that hold their dims; asked after `values`."""
        return np.ones((self.batch, 1), bool)


class ZeroOperator(HoldingOperator):
    """Holds its dims at zero: the control that commands nothing useful."""

    def values(self, observations: NDArray[np.float32]) -> NDArray[np.floating]:
        return np.zeros((self.batch, self.action_dim), np.float32)


class PolicyOperator(HoldingOperator):
    """A policy as the operator: what it would do, deterministically, of which only the held dims count.

    >>> PolicyOperator(load_policy("runs/kitchen-mixed/bc-s0"), dims, batch=8)   # doctest: +SKIP
    """

    def __init__(self, policy: Policy, dims: OperatorDims, batch: int = 1) -> None:
        super().__init__(dims, batch)
        if policy.action_dim != dims.action_dim:
            raise ValueError(
                f"the operator's policy gives {policy.action_dim} action dims, operator_dims are for {dims.action_dim}"
            )
        self.policy = policy
        self._generator = torch.Generator().manual_seed(0)
        self._state = policy.initial_state(batch)

    def begin(self, rows: NDArray[np.bool_], seeds: NDArray[np.int64]) -> None:
        super().begin(rows, seeds)
        self._state = self._state.reset(rows)

    def values(self, observations: NDArray[np.float32]) -> NDArray[np.floating]:
        actions, self._state = self.policy.step(
            observations, self._state, deterministic=True, generator=self._generator
        )
        return actions


class ReplayOperator(HoldingOperator):
    """Replays recorded actions, one recording an episode (drawn from the episode's seed when there are several),
    and lets go of its dims when the recording is over."""

    def __init__(
        self, actions: NDArray[np.floating] | Sequence[NDArray[np.floating]], dims: OperatorDims, batch: int = 1
    ) -> None:
        """`actions`: one (T, n) recording, or a list of them."""
        super().__init__(dims, batch)
        single = isinstance(actions, np.ndarray) and actions.ndim == 2
        self.recordings = [_recording(r, dims.action_dim) for r in ([actions] if single else actions)]
        if not self.recordings:
            raise ValueError("a replay needs at least one recording of actions, got none")
        self._chosen = np.zeros(batch, np.int64)
        self._holding = np.ones((batch, 1), bool)

    def begin(self, rows: NDArray[np.bool_], seeds: NDArray[np.int64]) -> None:
        super().begin(rows, seeds)
        for row in np.flatnonzero(rows):
            self._chosen[row] = random_stream("replay", seeds[row]).integers(len(self.recordings))

    def values(self, observations: NDArray[np.float32]) -> NDArray[np.floating]:
        values = np.zeros((self.batch, self.action_dim), np.float32)
        for row, (chosen, step) in enumerate(zip(self._chosen, self._steps, strict=True)):
            recording = self.recordings[chosen]
            self._holding[row] = step < len(recording)
            if step < len(recording):
                values[row] = recording[step]
        return values

    def holding(self) -> NDArray[np.bool_]:
        return self._holding


def random_stream(name: str, seed: int) -> np.random.Generator:
    """An episode's source of randomness for one purpose; other purposes have other ones."""
    return np.random.default_rng([int(seed) % 2**63, *name.encode()])


def _recording(actions: ArrayLike, action_dim: int) -> NDArray[np.float32]:
    found = np.asarray(actions, np.float32)
    if found.ndim != 2 or found.shape[1] != action_dim or len(found) == 0:
        raise ValueError(f"recorded actions must be (T, {action_dim}) with T of at least 1, got {found.shape}")
    if not np.isfinite(found).all():
        raise ValueError(
            f"recorded actions hold NaN or infinity, first at step {np.argwhere(~np.isfinite(found))[0][0]}"
        )
    return found
