"""Checks of masks and orders: each raises a ValueError that names the value and what is allowed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def check_mask(name: str, mask: Any, rows: int | None, num_variables: int) -> Tensor:
    """Return `mask` when it is a bool tensor of shape (rows, num_variables); a single row serves all rows."""
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        kind = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise ValueError(f"{name} must be a tensor of dtype torch.bool (True = in the set), got {kind}")
    if mask.shape == (num_variables,):
        mask = mask[None]
    if mask.ndim != 2 or mask.shape[1] != num_variables or (rows is not None and len(mask) not in (1, rows)):
        wanted = f"({'rows' if rows is None else rows}, {num_variables}) or ({num_variables},)"
        raise ValueError(f"{name} must have shape {wanted}, got {tuple(mask.shape)}")
    checked: Tensor = mask
    return checked if rows is None else checked.expand(rows, num_variables)


def check_disjoint(query: Tensor, given: Tensor, names: tuple[str, str] = ("query", "given")) -> None:
    """Raise when a variable of a row is in both masks."""
    overlap = query & given
    if overlap.any():
        row, variable = (int(v) for v in overlap.nonzero()[0])
        raise ValueError(f"{names[0]} and {names[1]} must not overlap: variable {variable} of row {row} is in both")


def check_order(order: Any, num_variables: int) -> Tensor:
    """Return `order` as a long tensor when it is a permutation of 0..num_variables-1."""
    given = torch.as_tensor(order)
    is_permutation = (
        given.shape == (num_variables,)
        and not given.is_floating_point()
        and torch.equal(given.long().sort().values, torch.arange(num_variables))
    )
    if not is_permutation:
        raise ValueError(f"order must be a permutation of 0..{num_variables - 1}, got {given.tolist()}")
    return given.long()
