"""The columns of a table that a model has as variables, and their scales."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mac_policy.rows.imputer.table import Floats

FURTHEST = 1e6  # standard deviations; values are clipped there
LARGEST = np.finfo(np.float64).max
CONSTANT = 1e-12  # a column is constant if its range is below this share of its largest value


@dataclass(frozen=True)
class Columns:
    """The location and scale of each column.

    location, scale: (C,) mean and standard deviation of the observed values, 0 and 1 for a column without any; varies:
    (C,) bool, columns with two or more different values, which are the variables of the model; empty: (C,) bool,
    columns without observed values.
    """

    location: Floats
    scale: Floats
    varies: NDArray[np.bool_]
    empty: NDArray[np.bool_]

    @staticmethod
    def of(values: Floats) -> Columns:
        observed = ~np.isnan(values)
        count = observed.sum(0)
        low = np.where(observed, values, np.inf).min(0)
        high = np.where(observed, values, -np.inf).max(0)
        largest = np.maximum(abs(low), abs(high))
        empty = count == 0
        # Halves, so that the range of a column of any finite numbers is finite.
        varies = ~empty & (high / 2 - low / 2 > CONSTANT * largest / 2)
        unit = np.where(varies, largest, 1.0)  # squares of values divided by the unit cannot overflow
        shares = np.where(observed, values, 0.0) / unit
        location = shares.sum(0) / np.maximum(count, 1)
        spread = np.sqrt((np.where(observed, shares - location, 0.0) ** 2).sum(0) / np.maximum(count, 1))
        location = np.where(empty, 0.0, np.where(varies, location * unit, low))
        return Columns(location, np.where(varies, spread * unit, 1.0), varies, empty)

    def standardised(self, values: Floats) -> Floats:
        """The variables of the model (R, N) in a table (R, C), standardised and clipped."""
        v = self.varies
        with np.errstate(over="ignore"):
            halves: Floats = (values[:, v] / 2 - self.location[v] / 2) / self.scale[v]  # halves cannot overflow
        return np.clip(2 * np.clip(halves, -FURTHEST, FURTHEST), -FURTHEST, FURTHEST)

    def restored(self, rows: Floats, values: Floats) -> Floats:
        """`values` (R, C) with missing values from the rows of the model (R, N), or from the constant of a column."""
        v = self.varies
        known = np.broadcast_to(self.location, values.shape).copy()
        with np.errstate(over="ignore"):
            restored = rows * self.scale[v] + self.location[v]
        known[:, v] = np.clip(restored, -LARGEST, LARGEST)
        return np.where(np.isnan(values), known, values)
