"""What a device sends, as arrays; nothing that it sends raises an error."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mac_policy.filter.reading import read_array


def rows_of(entry: Any, batch: int) -> NDArray[Any]:
    """An array with a batch axis, which the action of a single environment lacks; an empty one for what is no array of
    numbers."""
    found = read_array(entry)
    if found is None:
        return np.empty(0)
    return found[None] if batch == 1 and found.ndim == 1 else found


def truths_of(mask: ArrayLike) -> NDArray[np.bool_] | None:
    """Booleans, or zeros and ones as booleans; None for anything else."""
    found = read_array(mask)
    if found is None:
        return None
    if found.dtype == bool:
        return np.array(found, bool)  # a copy: operators may reuse their arrays
    truths: NDArray[np.bool_] = found == 1
    return truths if (truths | (found == 0)).all() else None
