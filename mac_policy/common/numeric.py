"""Arrays of numbers out of what a user, an environment or a device hands over."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray


def as_numbers(name: str, values: Any) -> NDArray[Any]:
    """An array of real numbers or booleans, not copied where it is one; ValueError for whatever is none.

    >>> from mac_policy.common.numeric import as_numbers
    >>> as_numbers("command", [0.5, 1])
    array([0.5, 1. ])
    """
    if type(values) is np.ndarray and values.dtype.kind in "fiub":
        return values
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(f"{name} must be arrays of numbers, got a masked array in which some are masked")
    try:
        found = np.asarray(values)
        if found.dtype.kind == "O" and found.size and all(isinstance(value, Real) for value in found.flat):
            found = found.astype(np.float64)  # whole numbers too large for an integer type
    except Exception as error:  # whatever foreign arrays raise
        raise ValueError(f"{name} must be arrays of numbers, got {type(values).__name__}: {error}") from error
    if found.dtype.kind not in "fiub":
        raise ValueError(f"{name} must be arrays of numbers, got {type(values).__name__} of {found.dtype}")
    return found
