"""An operator that commands zeros."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mac_policy.operators.dims import OperatorDims
from mac_policy.operators.operator import HoldingOperator, Operator
from mac_policy.operators.registry import OperatorKind, Resources, register_operator


class ZeroOperator(HoldingOperator):
    """Holds its dims at zero: a control that commands nothing useful."""

    def values(self, observations: NDArray[np.float32]) -> NDArray[np.floating]:
        return np.zeros((self.batch, self.action_dim), np.float32)


@register_operator
@dataclass(frozen=True)
class Zeros(OperatorKind):
    """Holds its dims at zero: a control."""

    name: ClassVar[str] = "zeros"

    def make(self, dims: OperatorDims, batch: int, resources: Resources) -> Operator:
        return ZeroOperator(dims, batch)

    def describe(self) -> str:
        return "nobody: its dims are held at zero"
