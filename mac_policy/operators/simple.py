"""Operators without settings: zeros, the scripted expert of a task, a trained policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from mac_policy.operators.dims import OperatorDims
from mac_policy.operators.manners import Person
from mac_policy.operators.operator import HoldingOperator, Operator
from mac_policy.operators.registry import Resources, register_operator
from mac_policy.policies.policy import Policy


class ZeroOperator(HoldingOperator):
    """Holds its dims at zero: a control that commands nothing useful."""

    def values(self, observations: NDArray[np.float32]) -> NDArray[np.floating]:
        return np.zeros((self.batch, self.action_dim), np.float32)


class PolicyOperator(HoldingOperator):
    """Commands the deterministic actions of a policy in the held dims.

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


@register_operator
@dataclass(frozen=True)
class Zeros(Person):
    """Holds its dims at zero: a control."""

    name: ClassVar[str] = "zeros"
    description: ClassVar[str] = "nobody: its dims are held at zero"

    def commanding(self, dims: OperatorDims, batch: int, resources: Resources) -> Operator:
        return ZeroOperator(dims, batch)


@register_operator
@dataclass(frozen=True)
class Scripted(Person):
    """The task's expert: completes the task's goals in an order drawn for each episode, or, in an environment with an
    intent, what is wanted."""

    name: ClassVar[str] = "expert"
    description: ClassVar[str] = "the scripted expert with an intent of its own"
    needs: ClassVar[Sequence[str]] = ("expert",)
    acts_alone: ClassVar[bool] = True
    says: ClassVar[bool] = True

    @property
    def sets_intent(self) -> bool:  # type: ignore[override]
        return self.changes_mind

    @property
    def character(self) -> dict[str, bool]:
        """What the task's expert is asked to be."""
        return {name: True for name in ("cooperative", "changes_mind") if getattr(self, name)}

    def commanding(self, dims: OperatorDims, batch: int, resources: Resources) -> Operator:
        operator: Operator = self.require(resources, "expert")(dims, **self.character)
        return operator


@register_operator
@dataclass(frozen=True)
class Trained(Person):
    """A trained behaviour-cloning policy (of any kind where `make_operator` is handed one)."""

    name: ClassVar[str] = "bc"
    description: ClassVar[str] = "a behaviour-cloning policy"
    needs: ClassVar[Sequence[str]] = ("policy",)
    acts_alone: ClassVar[bool] = True

    def commanding(self, dims: OperatorDims, batch: int, resources: Resources) -> Operator:
        return PolicyOperator(self.require(resources, "policy"), dims, batch)
