"""Exponential moving average of weights."""

from __future__ import annotations

import copy
from typing import TypeVar

import torch
from torch import nn

Module = TypeVar("Module", bound=nn.Module)


def averaged_copy(module: Module) -> Module:
    """A copy to hold the average, out of the optimiser's reach."""
    return copy.deepcopy(module).requires_grad_(False).eval()


@torch.no_grad()
def update(average: nn.Module, module: nn.Module, decay: float, step: int) -> None:
    """average <- d average + (1 - d) module, where d rises to `decay` so that the first steps are forgotten."""
    share = 1 - min(decay, (1 + step) / (10 + step))
    torch._foreach_lerp_(list(average.parameters()), list(module.parameters()), share)
