"""Which columns of a table a model is made of, and their scales."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mac_policy.rows.imputer.table import Floats

FURTHEST = 1e6  # standard deviations
LARGEST = np.finfo(np.float64).max
CONSTANT = 1e-12  # the width of a column, as a share of its largest value, that is rounding and no variation


@dataclass(frozen=True)
class Columns:
    """location, scale: (C,) of each column, of what is seen (0 and 1 where nothing is); varies: (C,) bool, has two
    values or more; empty: (C,) bool, has none. Those that vary are the model's variables, the others are known."""

    location: Floats
    scale: Floats
    varies: NDArray[np.bool_]
    empty: NDArray[np.bool_]

    @staticmethod
    def of(values: Floats) -> Columns:
        seen = ~np.isnan(values)
        count = seen.sum(0)
        low = np.where(seen, values, np.inf).min(0)
        high = np.where(seen, values, -np.inf).max(0)
        largest = np.maximum(abs(low), abs(high))
        empty = count == 0
        # Half of each, so that the width of a column that spans all numbers is one itself.
        varies = ~empty & (high / 2 - low / 2 > CONSTANT * largest / 2)
        unit = np.where(varies, largest, 1.0)  # squares of what is divided by it cannot overflow
        shares = np.where(seen, values, 0.0) / unit
        location = shares.sum(0) / np.maximum(count, 1)
        spread = np.sqrt((np.where(seen, shares - location, 0.0) ** 2).sum(0) / np.maximum(count, 1))
        location = np.where(empty, 0.0, np.where(varies, location * unit, low))
        return Columns(location, np.where(varies, spread * unit, 1.0), varies, empty)

    def standardised(self, values: Floats) -> Floats:
        """The model's variables (R, N) of a table (R, C), none further off than the network can count with."""
        v = self.varies
        with np.errstate(over="ignore"):
            halves: Floats = (values[:, v] / 2 - self.location[v] / 2) / self.scale[v]  # of what a number cannot hold
        return np.clip(2 * np.clip(halves, -FURTHEST, FURTHEST), -FURTHEST, FURTHEST)

    def restored(self, rows: Floats, values: Floats) -> Floats:
        """The table again: what is missing in `values` (R, C) from the model's rows (R, N), or from the constants."""
        v = self.varies
        known = np.broadcast_to(self.location, values.shape).copy()
        with np.errstate(over="ignore"):
            restored = rows * self.scale[v] + self.location[v]
        known[:, v] = np.clip(restored, -LARGEST, LARGEST)
        return np.where(np.isnan(values), known, values)
