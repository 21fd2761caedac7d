"""Bounds of imputed numbers."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mac_policy.rows.columns.columns import Columns

SEEN = "seen"


def encoded_bounds(columns: Columns, least: Any, most: Any, kept: NDArray[np.bool_]) -> tuple[Tensor, Tensor]:
    """The bounds (N,) of the model's variables, infinite for categories.

    least, most: a number, one number for each column of the table, or 'seen'; kept: which of these columns there are.
    """
    low, high = (_of_columns(name, value, kept) for name, value in (("min_value", least), ("max_value", most)))
    ends = []
    for place, column in enumerate(columns.all):
        if column.varies:
            below = column.low if low is None else low[place]
            above = column.high if high is None else high[place]
            if column.kind == "integer":
                below, above = np.ceil(below), np.floor(above)  # the whole numbers within
            if not below <= above:
                raise ValueError(f"min_value {below} is above max_value {above} for the column {column.name!r}")
            free = (-np.inf, np.inf)
            ends.append(free if column.is_categorical else tuple(_encoded(end, column) for end in (below, above)))
    found = torch.tensor(ends, dtype=torch.double).view(-1, 2)
    return found[:, 0], found[:, 1]


def _encoded(end: float, column: Any) -> float:
    return end if np.isinf(end) else float((end - column.location) / column.scale)


def _of_columns(name: str, value: Any, kept: NDArray[np.bool_]) -> NDArray[np.float64] | None:
    if isinstance(value, str) and value == SEEN:
        return None
    if isinstance(value, Real) and not isinstance(value, bool) and value == value:
        return np.full(int(kept.sum()), float(value))
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.shape != kept.shape or np.isnan(array).any():
        raise ValueError(f"{name} must be a number, {len(kept)} numbers (one for each column) or 'seen', got {value!r}")
    return array[kept]
