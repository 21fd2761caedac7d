"""Manners: how people differ in commanding. They compose with each other and with the spoilers."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mac_policy.common.checks import check_count, check_range
from mac_policy.common.settings import Count, Share
from mac_policy.operators.dims import OperatorDims
from mac_policy.operators.operator import Command, Operator, WrappedOperator, random_stream
from mac_policy.operators.registry import OperatorKind, Resources

PRESSED = 0.5
"""The share of a dim's range from its middle at which a key is pressed."""


class CoarseOperator(WrappedOperator):
    """Commands the lowest, the middle or the highest value of each dim, as keys do.

    >>> import numpy as np
    >>> from mac_policy.operators.from_file import ReplayOperator
    >>> replay = ReplayOperator(np.array([[0.2, -0.7]]), OperatorDims.parse(2, 2))
    >>> CoarseOperator(replay)([0.0]).values
    array([ 0., -1.], dtype=float32)
    """

    def __init__(self, inner: Operator, space: spaces.Box | None = None) -> None:
        """space: of the actions; by default [-1, 1] in each dim"""
        super().__init__(inner)
        low, high = (-1.0, 1.0) if space is None else (space.low, space.high)
        self._middle = np.broadcast_to((np.asarray(high) + low) / 2, (self.action_dim,))
        self._half = np.broadcast_to((np.asarray(high) - low) / 2, (self.action_dim,))

    def command(self, observations: NDArray[np.float32]) -> Command:
        found = self.inner(observations)
        share = (found.values - self._middle) / self._half
        keys = np.where(np.abs(share) >= PRESSED, np.sign(share), 0.0)
        return found._replace(values=(self._middle + keys * self._half).astype(np.float32))


class SlowOperator(WrappedOperator):
    """Gives a new command every `every` steps, and the same one between."""

    def __init__(self, inner: Operator, every: int) -> None:
        super().__init__(inner)
        self.every = check_count("slow", every)
        shape = (self.batch, self.action_dim)
        self._last = Command(np.zeros(shape, np.float32), np.zeros(shape, bool))
        self._steps = np.zeros(self.batch, np.int64)

    def begin(self, rows: NDArray[np.bool_], seeds: NDArray[np.int64]) -> None:
        super().begin(rows, seeds)
        self._steps = np.where(rows, 0, self._steps)

    def command(self, observations: NDArray[np.float32]) -> Command:
        found = self.inner(observations)  # the operator sees every step
        new = (self._steps % self.every == 0)[:, None]
        self._last = Command(np.where(new, found.values, self._last.values), np.where(new, found.mask, self._last.mask))
        self._steps = self._steps + 1
        return Command(self._last.values.copy(), self._last.mask.copy())


class ReleasingOperator(WrappedOperator):
    """Lets go of its dims for stretches, which take `share` of the steps and last `steps` of them on average.

    An episode begins with the dims held.
    """

    name = "lets go"

    def __init__(self, inner: Operator, share: float, steps: int) -> None:
        super().__init__(inner)
        self.stop, self.start = stretch_probabilities(share, steps)
        self._streams = [random_stream(self.name, 0) for _ in range(self.batch)]
        self._gone = np.zeros(self.batch, bool)

    def begin(self, rows: NDArray[np.bool_], seeds: NDArray[np.int64]) -> None:
        super().begin(rows, seeds)
        self._gone = self._gone & ~rows
        for row in np.flatnonzero(rows):
            self._streams[row] = random_stream(self.name, seeds[row])

    def command(self, observations: NDArray[np.float32]) -> Command:
        draws = np.array([stream.random() for stream in self._streams])
        self._gone = self._gone ^ (draws < np.where(self._gone, self.stop, self.start))
        found = self.inner(observations)
        return found._replace(mask=found.mask & ~self._gone[:, None])


def stretch_probabilities(share: float, steps: int) -> tuple[float, float]:
    """The probabilities a step of ending and of beginning a stretch, for stretches of `steps` steps on average that
    take `share` of the time."""
    check_range("lets_go", share, 0, 1)
    stop = 1 / check_count("lets_go_steps", steps)
    start = np.inf if share == 1 else stop * share / (1 - share)
    if start > 1:
        raise ValueError(
            f"operator.lets_go={share:g} leaves less than a step between stretches of operator.lets_go_steps={steps}: "
            f"give at most {steps / (steps + 1):.3g}, or longer stretches; operator_dims=0 holds nothing"
        )
    return stop, start


@dataclass(frozen=True, kw_only=True)
class Manners(OperatorKind):
    """slow: steps from one command to the next; the command is held between
    coarse: whether commands are rounded to the lowest, the middle and the highest value of a dim
    lets_go: share of the steps in which the dims are let go of, in stretches
    lets_go_steps: mean length of such a stretch
    says_only: whether the operator holds nothing and only says what it wants, to policies that are told
    cooperative: of the expert: whether it continues with the wanted task that the arm is nearest to, and follows the
        arm to another one; otherwise it has its own order whatever the arm does
    changes_mind: of the expert: whether it wants other tasks from a random step on
    """

    slow: Count = 1
    coarse: bool = False
    lets_go: Share = 0.0
    lets_go_steps: Count = 20
    says_only: bool = False  # type: ignore[misc]
    cooperative: bool = False
    changes_mind: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        stretch_probabilities(self.lets_go, self.lets_go_steps)
        for name in ("cooperative", "changes_mind"):
            if getattr(self, name) and "expert" not in self.needs:
                raise ValueError(f"operator.{name}=true needs operator=expert; a {self.name!r} operator has no intent")

    @property
    def manners(self) -> dict[str, Any]:
        """Those manners that differ from the usual ones."""
        return {
            field.name: value
            for field in dataclasses.fields(Manners)
            if (value := getattr(self, field.name)) != field.default
        }

    @property
    def in_words(self) -> list[str]:
        """The manners in words."""
        return [
            name.replace("_", " ") + ("" if value is True else f" {value:g}") for name, value in self.manners.items()
        ]

    @property
    def label(self) -> str:
        return ", ".join([super().label, *self.in_words])

    def describe(self) -> str:
        return ", ".join([super().describe(), *self.in_words])


@dataclass(frozen=True)
class Person(Manners):
    """Base class of kinds of operators with manners; a subclass defines `commanding`."""

    @abstractmethod
    def commanding(self, dims: OperatorDims, batch: int, resources: Resources) -> Operator:
        """The operator of `batch` environments, without manners."""

    def make(self, dims: OperatorDims, batch: int, resources: Resources) -> Operator:
        held = OperatorDims.parse(0, dims.action_dim) if self.says_only else dims
        operator = self.commanding(held, batch, resources)
        if self.coarse:
            operator = CoarseOperator(operator, resources.space)
        if self.slow > 1:
            operator = SlowOperator(operator, self.slow)
        return ReleasingOperator(operator, self.lets_go, self.lets_go_steps) if self.lets_go else operator


DEFAULT = "default"
"""Stands for the kind of operator of the task's experiment."""


def given_manners(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without manners that are the usual ones, which an operator of any kind has."""
    usual = {field.name: field.default for field in dataclasses.fields(Manners)}
    return {name: value for name, value in settings.items() if name not in usual or value != usual[name]}
