"""Arrays out of whatever an environment or an operator's device hands over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mac_policy.common.numeric import as_numbers

FAULTS = (Exception, SystemExit)
"""What foreign code may raise: also a wish to end the process, which a robot must not be left alone for."""


def read_array(entry: Any) -> NDArray[Any] | None:
    """An array of real numbers or booleans; None for whatever cannot be read as one."""
    try:
        return as_numbers("an entry", entry)
    except FAULTS:
        return None


def read_observations(entry: Any, batch: int, dim: int) -> NDArray[np.float32]:
    """(B, obs) a copy; NaN throughout for whatever is no array of this shape. The observation of a single environment
    needs no batch axis."""
    found = read_array(entry)
    if found is not None and batch == 1 and found.ndim == 1:
        found = found[None]
    if found is None or found.shape != (batch, dim):
        return np.full((batch, dim), np.nan, np.float32)
    if found.dtype == np.float32:
        return np.array(found)
    with np.errstate(over="ignore"):
        return np.array(found, np.float32)


ABSENT = object()


def entry_of(action: Any, name: str, default: Any = None) -> Any:
    """An entry of an action, `default` where it has none; None where the action is no mapping or cannot be asked."""
    try:
        return action.get(name, default) if isinstance(action, Mapping) else None
    except FAULTS:
        return None
