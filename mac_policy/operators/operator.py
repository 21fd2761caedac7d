"""Operators: whoever commands some dims of the action, such as a person, a simple policy or a recording.

An operator serves B environments at once. All randomness of an episode comes from the episode's seed, so that the
same episode brings the same commands whatever policy fills in the rest and whichever row the episode runs in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mac_policy.common.checks import check_count
from mac_policy.common.numeric import as_numbers
from mac_policy.operators.dims import OperatorDims


class Command(NamedTuple):
    """The command of a step: `values` count only where `mask` is true."""

    values: NDArray[np.float32]
    """(B, n)"""
    mask: NDArray[np.bool_]
    """(B, n)"""


class Operator(ABC):
    """Commands some dims of n-dimensional actions in `batch` environments.

    >>> from mac_policy.operators.simple import ZeroOperator
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
        observations = as_numbers("observations", observations).astype(np.float32, copy=False)
        rows = observations[None] if observations.ndim == 1 else observations
        if rows.ndim != 2 or len(rows) != self.batch:
            raise ValueError(f"observations must be ({self.batch}, obs), got {observations.shape}")
        if not self._begun:
            self.reset()
        command = self.command(rows)
        return Command(command.values[0], command.mask[0]) if observations.ndim == 1 else command

    def wanted(self) -> list[str | None]:
        """For each row what the operator wants at present, a class of the task's first label; None where it does not
        say."""
        return [None] * self.batch

    @abstractmethod
    def begin(self, rows: NDArray[np.bool_], seeds: NDArray[np.int64]) -> None:
        """The rows (B,) that are true begin new episodes."""

    @abstractmethod
    def command(self, observations: NDArray[np.float32]) -> Command:
        """(B, obs) -> the commands of this step."""


class WrappedOperator(Operator):
    """Changes the commands of another operator, and wants what that one wants."""

    def __init__(self, inner: Operator) -> None:
        super().__init__(inner.action_dim, inner.batch)
        self.inner = inner

    def wanted(self) -> list[str | None]:
        return self.inner.wanted()

    def begin(self, rows: NDArray[np.bool_], seeds: NDArray[np.int64]) -> None:
        self.inner.reset(rows, seeds)


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
        return Command(values.astype(np.float32, copy=False), mask)

    @abstractmethod
    def values(self, observations: NDArray[np.float32]) -> NDArray[np.floating]:
        """(B, obs) -> (B, n)."""


def random_stream(name: str, seed: int) -> np.random.Generator:
    """An episode's source of randomness for one purpose; other purposes have other ones."""
    return np.random.default_rng([int(seed) % 2**63, *name.encode()])
