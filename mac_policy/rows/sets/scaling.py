"""Normalisation of tables, and removal of constant columns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

LARGEST = 1e150
CONSTANT = 1e-6
"""The relative range of values up to which a column counts as constant."""


class Scaling(NamedTuple):
    """Standardise columns: (x - mean) / std, with mean and std (N,). std is 1 for a constant column.

    >>> import numpy as np
    >>> from mac_policy.rows.sets.scaling import Scaling
    >>> Scaling.of(np.array([[0.0, 5.0], [2.0, 5.0]]))(np.array([[4.0, 6.0]]))
    array([[3., 1.]])
    """

    mean: NDArray[np.float64]
    std: NDArray[np.float64]

    @staticmethod
    def of(rows: NDArray[np.float64], ddof: int = 0) -> Scaling:
        if len(rows) and bool((far := np.abs(rows).max(0) > LARGEST).any()):
            raise ValueError(
                f"column {int(far.argmax())} of the table holds numbers above {LARGEST:g}, whose squares overflow: "
                "rescale it"
            )
        std = rows.std(0, ddof=ddof)
        return Scaling(rows.mean(0), np.where(is_constant(rows), 1.0, std))

    def __call__(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        return (rows - self.mean) / self.std


def is_constant(rows: NDArray[Any]) -> NDArray[np.bool_]:
    """True for columns that have a single value up to rounding. (N,) bool"""
    low, high = rows.min(0).astype(np.float64), rows.max(0).astype(np.float64)
    constant: NDArray[np.bool_] = high - low <= CONSTANT * np.maximum(np.maximum(abs(low), abs(high)), 1.0)
    return constant


def drop_constant(
    splits: tuple[NDArray[Any], ...],
) -> tuple[tuple[NDArray[Any], ...], str]:
    """Drop the columns that are constant in the first split. Returns the splits and a note that names the columns.

    A constant column has no density: the likelihood of a narrow peak on its value is unbounded. The note is '' if no
    column is constant.
    """
    constant = is_constant(splits[0])
    if not constant.any():
        return splits, ""
    if constant.all():
        raise ValueError("every column of the table is constant")
    named = ", ".join(str(column) for column in np.flatnonzero(constant))
    return tuple(rows[:, ~constant] for rows in splits), f"constant columns dropped: {named}"
