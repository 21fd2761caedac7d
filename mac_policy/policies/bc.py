"""Behaviour cloning: an MLP from observation to action, trained on the mean squared error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from mac_policy.common.settings import Depth, Size
from mac_policy.core.frame import Frame
from mac_policy.core.networks.mlp import hidden_layers
from mac_policy.policies.policy import Policy
from mac_policy.policies.request import Request
from mac_policy.policies.settings import PolicySettings
from mac_policy.policies.spaces import Spaces


def mlp(inputs: int, width: int, depth: int, outputs: int, bias: bool = True) -> nn.Sequential:
    """`depth` hidden layers of `width` units with ReLU, and a linear layer (`bias`: whether it has a bias)."""
    return nn.Sequential(hidden_layers(inputs, width, depth, residual=False), nn.Linear(width, outputs, bias=bias))


@dataclass(frozen=True)
class BCSettings(PolicySettings):
    """width, depth: of the MLP."""

    width: Size = 512
    depth: Depth = 4


class BC(Policy):
    """The paper's conditional-BC baseline: commanded dims are returned, the others do not depend on them."""

    kind: ClassVar[str] = "bc"
    settings_class: ClassVar[type[PolicySettings]] = BCSettings
    labels_as = "inputs"
    reads_command = False
    settings: BCSettings

    def __init__(self, spaces: Spaces, settings: BCSettings) -> None:
        super().__init__(spaces, settings)
        self.network = mlp(self.num_inputs, settings.width, settings.depth, len(self.variables))

    def loss(self, context: Tensor, actions: Tensor, inside: Tensor, draws: Any, frame: Frame | None = None) -> Tensor:
        errors = (self._said(context, frame) - actions).square()
        loss: Tensor = ((errors * inside).sum(1) / inside.sum(1)).mean()
        return loss

    def plan(
        self, context: Tensor, values: Tensor, given: Tensor, request: Request, frame: Frame | None = None
    ) -> Tensor:
        return self._said(context, frame)

    def _said(self, context: Tensor, frame: Frame | None) -> Tensor:
        said: Tensor = self.network(context).float()
        return said if frame is None else frame.to_location(said)
