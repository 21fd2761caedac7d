"""Spoilers: each wraps an operator and makes it worse, by noise, lag or letting go."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mac_policy.common.checks import check_choice, check_range
from mac_policy.common.settings import Share
from mac_policy.operators.dims import OperatorDims
from mac_policy.operators.manners import Manners
from mac_policy.operators.operator import Command, Operator, WrappedOperator, random_stream
from mac_policy.operators.registry import OPERATORS, OperatorKind, Resources, make_kind, register_operator


class SpoiledOperator(WrappedOperator):
    """Changes the commands of another operator; every row draws the same number of random values at each step."""

    name: str

    def __init__(self, inner: Operator, p: float) -> None:
        check_range(f"p of a {self.name} operator", p, 0, 1)
        super().__init__(inner)
        self.p = float(p)
        self._streams = [random_stream(self.name, 0) for _ in range(self.batch)]

    def begin(self, rows: NDArray[np.bool_], seeds: NDArray[np.int64]) -> None:
        super().begin(rows, seeds)
        for row in np.flatnonzero(rows):
            self._streams[row] = random_stream(self.name, seeds[row])

    def command(self, observations: NDArray[np.float32]) -> Command:
        draws = np.stack([stream.random(1 + self.action_dim) for stream in self._streams])
        return self.change(self.inner(observations), draws[:, 0] < self.p, draws[:, 1:])

    @abstractmethod
    def change(self, command: Command, hit: NDArray[np.bool_], draws: NDArray[np.float64]) -> Command:
        """hit (B,): true with probability p; draws (B, n): uniform in [0, 1)."""


class NoisyOperator(SpoiledOperator):
    """At each step, with probability p, commands a uniformly random action in the held dims."""

    name = "noisy"

    def __init__(self, inner: Operator, p: float, space: spaces.Box) -> None:
        super().__init__(inner, p)
        if space.shape != (self.action_dim,):
            raise ValueError(f"the operator commands {self.action_dim} action dims, the space is {space}")
        self.space = space

    def change(self, command: Command, hit: NDArray[np.bool_], draws: NDArray[np.float64]) -> Command:
        random = (self.space.low + draws * (self.space.high - self.space.low)).astype(np.float32)
        return Command(np.where(hit[:, None], random, command.values), command.mask)


class LaggyOperator(SpoiledOperator):
    """At each step, with probability p, repeats its last command of the episode, values and mask."""

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


class DropoutOperator(SpoiledOperator):
    """At each step, with probability p, lets go of its dims, or takes hold of them again where it has let go.

    Holding and letting go last 1/p steps on average. An episode begins with the dims held.
    """

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


@dataclass(frozen=True)
class Spoiler(Manners):
    """inner: the kind of operator that is spoiled; it has the manners
    p: probability a step
    path: the file of an inner operator that reads one
    """

    inner: str | OperatorKind = "bc"
    p: Share = 0.3
    path: Path | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "inner", self.whole)  # worker processes look up no name

    @property
    def whole(self) -> OperatorKind:
        """The kind that `inner` is or names."""
        if not isinstance(self.inner, str):
            if given := [name for name, value in self.manners.items() if value != getattr(self.inner, name, value)]:
                raise ValueError(f"{', '.join(given)}: give the manners to the operator that is passed as inner")
            return self.inner
        if (self.inner not in OPERATORS and ":" not in self.inner) or issubclass(OPERATORS.find(self.inner), Spoiler):
            check_choice("inner operator", self.inner, [k for k, v in OPERATORS.items() if not issubclass(v, Spoiler)])
        return make_kind(self.inner, self.manners | ({} if self.path is None else {"path": self.path}))

    @abstractmethod
    def spoiled(self, inner: Operator, resources: Resources) -> Operator:
        """The inner operator, made worse."""

    def make(self, dims: OperatorDims, batch: int, resources: Resources) -> Operator:
        return self.spoiled(self.whole.make(dims, batch, resources), resources)

    def describe(self) -> str:
        return f"{self.whole.describe()}, {self.description.format(self)}"

    @property
    def needs(self) -> Sequence[str]:  # type: ignore[override]
        return self.whole.needs

    @property
    def acts_alone(self) -> bool:  # type: ignore[override]
        return self.whole.acts_alone

    @property
    def says(self) -> bool:  # type: ignore[override]
        return self.whole.says

    @property
    def sets_intent(self) -> bool:  # type: ignore[override]
        return self.whole.sets_intent

    @property
    def label(self) -> str:
        return f"{self.name} {self.whole.label}, p={self.p:g}"

    def identity(self) -> dict[str, Any]:
        found = super().identity()
        del found["path"]
        return found | {"inner": self.whole.identity()}


@register_operator
@dataclass(frozen=True)
class Noisy(Spoiler):
    """At each step, with probability p, a random action in the held dims."""

    name: ClassVar[str] = "noisy"
    description: ClassVar[str] = "at each step with probability {0.p:g} a random action instead"

    def spoiled(self, inner: Operator, resources: Resources) -> Operator:
        return NoisyOperator(inner, self.p, self.require(resources, "space"))


@register_operator
@dataclass(frozen=True)
class Laggy(Spoiler):
    """At each step, with probability p, the last command once more."""

    name: ClassVar[str] = "laggy"
    description: ClassVar[str] = "at each step with probability {0.p:g} its last command again"

    def spoiled(self, inner: Operator, resources: Resources) -> Operator:
        return LaggyOperator(inner, self.p)


@register_operator
@dataclass(frozen=True)
class Dropout(Spoiler):
    """At each step, with probability p, lets go of its dims or takes hold of them again."""

    name: ClassVar[str] = "dropout"
    description: ClassVar[str] = "letting go and taking hold again with probability {0.p:g} a step"

    def spoiled(self, inner: Operator, resources: Resources) -> Operator:
        return DropoutOperator(inner, self.p)
