"""Checks of tensors: each raises a ValueError that names the value and what is allowed."""

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


def check_disjoint(**masks: Tensor) -> None:
    """Raise when a variable of a row is in both of two masks, which are given by name."""
    (first, one), (second, other) = masks.items()
    overlap = one & other
    if overlap.any():
        row, variable = (int(v) for v in overlap.nonzero()[0])
        raise ValueError(f"{first} and {second} must not overlap: variable {variable} of row {row} is in both")


def check_order(order: Any, num_variables: int) -> Tensor:
    """Return `order` as a long tensor when it is a permutation of 0..num_variables-1."""
    given = as_tensor("order", order).cpu()
    is_permutation = (
        given.shape == (num_variables,)
        and not given.is_floating_point()
        and torch.equal(given.long().sort().values, torch.arange(num_variables))
    )
    if not is_permutation:
        raise ValueError(f"order must be a permutation of 0..{num_variables - 1}, got {given.tolist()}")
    return given.long()


def check_generator(generator: Any) -> None:
    """Raise unless `generator` is a torch.Generator of the CPU, or None."""
    if generator is None or (isinstance(generator, torch.Generator) and generator.device.type == "cpu"):
        return
    raise ValueError(f"generator must be a torch.Generator of the CPU or None, got {generator!r}")


def check_factorization(factorization: Any) -> None:
    """Raise unless `factorization` knows its variables and their paths."""
    if not (hasattr(factorization, "num_variables") and hasattr(factorization, "ranks")):
        raise ValueError(
            f"factorization must be one such as MaskTuned, UniformOrder or StagedModes, got {factorization!r}"
        )


def check_values(x: Any, num_variables: int) -> None:
    """Raise unless `x` is a tensor of shape (rows, num_variables)."""
    if not isinstance(x, Tensor):
        raise ValueError(f"x must be a tensor of shape (rows, {num_variables}), got {type(x).__name__}")
    if x.is_complex():
        raise ValueError(f"x must hold real numbers, got {x.dtype}")
    if x.ndim != 2 or x.shape[1] != num_variables:
        raise ValueError(f"x must have shape (rows, {num_variables}), got {tuple(x.shape)}")


def check_rows(name: str, value: Any, rows: int) -> None:
    """Raise unless the first axis of `value` has as many entries as x has rows."""
    if not isinstance(value, Tensor) or value.ndim < 1 or len(value) != rows:
        kind = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        raise ValueError(f"{name} must be a tensor with a row for each of the {rows} of x, got {kind}")


def check_entries(name: str, value: Tensor, bad: Tensor, must: str) -> None:
    """Raise for the first entry of `value` where `bad` is True; `must` says what an entry must be."""
    if bad.any():
        index = tuple(bad.nonzero()[0].tolist())
        raise ValueError(f"{name}{list(index)} is {value[index].item()}: it must be {must}")


def as_tensor(name: str, value: Any) -> Tensor:
    """`value` as a tensor; a ValueError when it is nothing that can be one."""
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{name} must be a tensor or numbers in lists, got {value!r}") from error
