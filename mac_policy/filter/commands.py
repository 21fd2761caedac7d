"""Makes the command of an operator's device usable, so that no input can harm the robot or stop the program."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray


class Usable(NamedTuple):
    """The part of a command that can be carried out."""

    command: NDArray[Any]
    """(B, n) of the space's dtype, inside the space where `mask` is true."""
    mask: NDArray[np.bool_]
    """(B, n)"""
    invalid: NDArray[np.bool_] | None
    """(B,): rows with an unusable part; None without such rows."""
    clipped: NDArray[np.bool_] | None
    """(B,): rows with a finite value outside the space; None without such rows."""


def usable_command(command: ArrayLike, mask: ArrayLike, batch: int, space: spaces.Box) -> Usable:
    """Clip finite values to the space and drop the others from the mask.

    A command that is not (batch, n) numbers, or whose mask is not (batch, n) booleans (or zeros and ones), is dropped
    as a whole.
    """
    values, held = _numbers(command, space), _truths(mask)
    size = (batch, space.shape[0])
    if values is None or held is None or values.shape != size or held.shape != size:
        return Usable(np.zeros(size, space.dtype), np.zeros(size, bool), np.ones(batch, bool), None)
    values = np.where(held, values, 0)
    outside = held > ((values >= space.low) & (values <= space.high))
    if not np.count_nonzero(outside):
        return Usable(values, held, None, None)
    bad = held & ~np.isfinite(values)
    held = held & ~bad
    return Usable(np.clip(values, space.low, space.high), held, rows_with(bad), rows_with(outside & ~bad))


def rows_with(flags: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
    """(B, n) -> the rows (B,) with any true flag; None without such rows."""
    if not np.count_nonzero(flags):
        return None
    rows: NDArray[np.bool_] = np.logical_or.reduce(flags, axis=1)
    return rows


def _numbers(values: ArrayLike, space: spaces.Box) -> NDArray[Any] | None:
    if isinstance(values, np.ndarray) and values.dtype == space.dtype:
        return values
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(values, space.dtype)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # a whole number too large, a tensor with a gradient
        return None


def _truths(mask: ArrayLike) -> NDArray[np.bool_] | None:
    try:
        found = np.array(mask)  # a copy: operators may reuse their arrays
    except (TypeError, ValueError, RuntimeError):
        return None
    if found.dtype == bool:
        return found
    if found.dtype.kind not in "iuf" or not ((found == 0) | (found == 1)).all():
        return None
    return found.astype(bool)
