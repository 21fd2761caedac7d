"""What every network has: its sizes and input checks; and the one place where unseen values vanish."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor, nn

from mac_policy.common.checks import check_count
from mac_policy.core.checks import check_entries


class Network(nn.Module, ABC):
    """What both kinds of networks share."""

    kind: ClassVar[str]
    __call__: Callable[..., Tensor]

    def __init__(
        self, *, num_variables: int, num_features: int, num_params: int, context_dim: int, num_modes: int
    ) -> None:
        super().__init__()
        check_sizes(num_variables=num_variables, num_features=num_features, num_params=num_params)
        check_sizes(0, context_dim=context_dim, num_modes=num_modes)
        self.num_variables = num_variables
        self.num_features = num_features
        self.num_params = num_params
        self.context_dim = context_dim
        self.num_modes = num_modes

    def encode(self, context: Tensor | None) -> Tensor | None:
        """Reads the context once: ``(B, context_dim)`` to ``(B, H)``. By default the context itself."""
        self._check_context(context)
        return context

    def _check_context(self, context: Tensor | None) -> None:
        if context is None and self.context_dim > 0:
            raise ValueError(f"context is None: this network needs one of shape (B, {self.context_dim})")
        if context is not None and self.context_dim == 0:
            raise ValueError("context is given: this network was built with context_dim=0 and takes none")
        if context is None:
            return
        if not isinstance(context, Tensor) or not context.is_floating_point():
            kind = context.dtype if isinstance(context, Tensor) else type(context).__name__
            raise ValueError(f"context is of type {kind}: it must be a tensor of floating-point numbers")
        if context.ndim != 2 or context.shape[1] != self.context_dim:
            raise ValueError(f"context has shape {tuple(context.shape)}: it must be (B, {self.context_dim})")

    def _check_features(self, features: Tensor) -> None:
        if features.ndim != 3 or tuple(features.shape[1:]) != (self.num_variables, self.num_features):
            raise ValueError(
                f"features have shape {tuple(features.shape)}: they must be "
                f"(B, {self.num_variables}, {self.num_features})"
            )

    def _check_conditions(self, batch: int, encoded: Tensor | None, mode: Tensor | None) -> None:
        for name, value, size in (("encoded context", encoded, "context_dim"), ("mode", mode, "num_modes")):
            if (value is None) != (getattr(self, size) == 0):
                state = "missing" if value is None else "given"
                raise ValueError(f"{name} is {state}: this network has {size}={getattr(self, size)}")
        if encoded is not None and encoded.shape[0] != batch:
            raise ValueError(
                f"encoded context has {encoded.shape[0]} rows: it must have one for each of the {batch} rows"
            )
        if mode is not None:
            check_mode(mode, batch, self.num_modes)


class SetNetwork(Network):
    """Sees (values, evidence bits) and gives the parameters of every variable's conditional at once.

    Output rows never depend on unseen values, not even on whether they are NaN; the evidence bits always
    reach the network, because a value of zero is not 'unseen'.
    """

    kind = "set"

    @abstractmethod
    def forward(
        self, features: Tensor, evidence: Tensor, encoded: Tensor | None = None, mode: Tensor | None = None
    ) -> Tensor:
        """``(B, N, F)`` features, ``(B, N)`` bool evidence, ``encode(context)``, ``(B,)`` long mode to
        ``(B, N, P)`` parameters."""

    def some(
        self, features: Tensor, evidence: Tensor, encoded: Tensor | None, mode: Tensor | None, wanted: Tensor
    ) -> Tensor:
        """The parameters ``(A, P)`` of the conditionals that are `wanted` ``(B, N)``, row by row. A network whose last
        layer is the larger part of it answers less than all."""
        return self(features, evidence, encoded, mode)[wanted]

    def _visible(self, features: Tensor, evidence: Tensor, encoded: Tensor | None, mode: Tensor | None) -> Tensor:
        """Checks the inputs and returns the features with zeros where nothing is seen, ``(B, N, F)``."""
        self._check_features(features)
        if evidence.shape != features.shape[:2] or evidence.dtype != torch.bool:
            raise ValueError(
                f"evidence has shape {tuple(evidence.shape)} and dtype {evidence.dtype}: it must be "
                f"{tuple(features.shape[:2])} and torch.bool"
            )
        self._check_conditions(len(features), encoded, mode)
        features = features.to(next(self.parameters()).dtype)
        # where, not a product: 0 * NaN is NaN.
        return torch.where(evidence[..., None], features, torch.zeros_like(features))


def check_mode(mode: Tensor, batch: int, num_modes: int) -> None:
    if tuple(mode.shape) != (batch,) or mode.dtype != torch.long:
        raise ValueError(
            f"mode has shape {tuple(mode.shape)} and dtype {mode.dtype}: it must be ({batch},) and torch.long"
        )
    check_entries("mode", mode, (mode < 0) | (mode >= num_modes), f"in 0..{num_modes - 1}")


def check_sizes(least: int = 1, **sizes: int) -> None:
    """Raises ValueError naming the first size that is no whole number of at least ``least``."""
    for name, size in sizes.items():
        check_count(name, size, least)


def check_multiple(name: str, value: int, of: str, divisor: int) -> None:
    if value % divisor:
        raise ValueError(f"{name} is {value}: it must be a multiple of {of}={divisor}")


def small_output(layer: nn.Linear | nn.Conv2d) -> None:
    """Starts an output layer near zero, where heads are near uniform or standard normal.

    Not at zero: then no gradient would reach the layers below in the first step.
    """
    fan_in = layer.weight[0].numel()
    nn.init.normal_(layer.weight, std=0.1 / fan_in**0.5)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
