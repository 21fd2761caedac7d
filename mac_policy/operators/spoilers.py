"""What goes wrong with operators: noise, lag, letting go. Each wraps another operator."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mac_policy.common.checks import is_number
from mac_policy.operators.operator import Command, Operator, random_stream


class WrappedOperator(Operator):
    """Changes what another operator commands; every row draws the same number of random values at each step."""

    name: str

    def __init__(self, inner: Operator, p: float) -> None:
        if not is_number(p) or not 0 <= p <= 1:
            raise ValueError(f"p of a {self.name} operator must be a probability in [0, 1], got {p!r}")
        super().__init__(inner.action_dim, inner.batch)
        self.inner, self.p = inner, float(p)
        self._streams = [random_stream(self.name, 0) for _ in range(self.batch)]

    def begin(self, rows: NDArray[np.bool_], seeds: NDArray[np.int64]) -> None:
        self.inner.reset(rows, seeds)
        for row in np.flatnonzero(rows):
            self._streams[row] = random_stream(self.name, seeds[row])

    def command(self, observations: NDArray[np.float32]) -> Command:
        draws = np.stack([stream.random(1 + self.action_dim) for stream in self._streams])
        return self.change(self.inner(observations), draws[:, 0] < self.p, draws[:, 1:])

    @abstractmethod
    def change(self, command: Command, hit: NDArray[np.bool_], draws: NDArray[np.float64]) -> Command:
        """hit (B,): true with probability p; draws (B, n): uniform in [0, 1)."""


class NoisyOperator(WrappedOperator):
    """At each step, with probability p, a uniformly random action in the dims it holds."""

    name = "noisy"

    def __init__(self, inner: Operator, p: float, space: spaces.Box) -> None:
        super().__init__(inner, p)
        if space.shape != (self.action_dim,):
            raise ValueError(f"the operator commands {self.action_dim} action dims, the space is {space}")
        self.space = space

    def change(self, command: Command, hit: NDArray[np.bool_], draws: NDArray[np.float64]) -> Command:
        random = (self.space.low + draws * (self.space.high - self.space.low)).astype(np.float32)
        return Command(np.where(hit[:, None], random, command.values), command.mask)


class LaggyOperator(WrappedOperator):
    """At each step, with probability p, its last command once more, values and dims; an episode begins afresh."""

    name = "laggy"

    def __init__(self, inner: Operator, p: float) -> None:
        super().__init__(inner, p)
        self._last = Command(
            np.zeros((self.batch, self.action_dim), np.float32), np.zeros((self.batch, self.action_dim), bool)
        )
        self._fresh = np.ones(self.batch, bool)

    def begin(self, rows: NDArray[np.bool_], seeds: NDArray[np.int64]) -> None:
        super().begin(rows, seeds)
        self._fresh = self._fresh | rows

    def change(self, command: Command, hit: NDArray[np.bool_], draws: NDArray[np.float64]) -> Command:
        again = (hit & ~self._fresh)[:, None]
        last = self._last
        self._last = Command(np.where(again, last.values, command.values), np.where(again, last.mask, command.mask))
        self._fresh = np.zeros(self.batch, bool)
        return Command(self._last.values.copy(), self._last.mask.copy())


class DropoutOperator(WrappedOperator):
    """Lets go of its dims now and then. At each step, with probability p, it lets go if it holds and takes hold
    again if it has let go: both last 1/p steps on average. An episode begins with its dims held."""

    name = "dropout"

    def __init__(self, inner: Operator, p: float) -> None:
        super().__init__(inner, p)
        self._gone = np.zeros(self.batch, bool)

    def begin(self, rows: NDArray[np.bool_], seeds: NDArray[np.int64]) -> None:
        super().begin(rows, seeds)
        self._gone = self._gone & ~rows

    def change(self, command: Command, hit: NDArray[np.bool_], draws: NDArray[np.float64]) -> Command:
        self._gone = self._gone ^ hit
        return Command(command.values, command.mask & ~self._gone[:, None])
