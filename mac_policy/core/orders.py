"""Canonical orders: an order is a long tensor (N,), order[j] being the variable at position j.

>>> from mac_policy.core.orders import strided
>>> strided(6, 2)
tensor([0, 2, 4, 1, 3, 5])
"""

from __future__ import annotations

import torch
from torch import Tensor

from mac_policy.common.checks import check_count


def lexicographic(num_variables: int) -> Tensor:
    """0, 1, ..., N-1: the order of text and of the papers' experiments."""
    return torch.arange(check_count("num_variables", num_variables))


def strided(num_variables: int, stride: int) -> Tensor:
    """0, k, 2k, ..., 1, k+1, ...: every k-th variable first, so that early evidence spreads over all."""
    check_count("num_variables", num_variables)
    check_count("stride", stride)
    return torch.cat([torch.arange(start, num_variables, stride) for start in range(min(stride, num_variables))])


def random(num_variables: int, generator: torch.Generator | None = None) -> Tensor:
    """A uniformly drawn permutation, to be kept as the canonical order of one model."""
    return torch.randperm(check_count("num_variables", num_variables), generator=generator)


def positions(order: Tensor) -> Tensor:
    """The inverse of an order: positions[i] is the place of variable i."""
    return torch.argsort(order)
