"""The scripted expert of a task as the operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from mac_policy.operators.dims import OperatorDims
from mac_policy.operators.operator import Operator
from mac_policy.operators.registry import OperatorKind, Resources, register_operator


@register_operator
@dataclass(frozen=True)
class Scripted(OperatorKind):
    """The task's expert: completes the task's goals in an order drawn for each episode, which no policy is told."""

    name: ClassVar[str] = "expert"
    needs: ClassVar[Sequence[str]] = ("expert",)
    acts_alone: ClassVar[bool] = True

    def make(self, dims: OperatorDims, batch: int, resources: Resources) -> Operator:
        operator: Operator = self.require(resources, "expert")(dims)
        return operator

    def describe(self) -> str:
        return "the scripted expert with an intent of its own that no policy is told"
