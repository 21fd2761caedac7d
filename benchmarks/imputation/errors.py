"""Errors of imputed cells, and calibration of draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.imputation.imputers import Filled
from benchmarks.imputation.tables import Bools, is_category

Floats = NDArray[np.float64]
LEVEL = 0.9
TIE = 1e-9
"""A draw that is nearer than this to a value equals it."""


def errors_of(found: Filled, table: pd.DataFrame, hidden: Bools, rows: NDArray[np.int64]) -> dict[str, Any]:
    """NRMSE of hidden numbers, by the standard deviations of the table's columns; the share of hidden categories that
    are wrong; of draws, the share of hidden numbers in the central 90% intervals (and with ties split), and CRPS in
    standard deviations."""
    numbers = [place for place, name in enumerate(table) if not is_category(table[name])]
    record: dict[str, Any] = {
        "fit_seconds": found.fit_seconds,
        "transform_seconds": found.transform_seconds,
        "warned": found.warned,
    }
    truth = table.iloc[:, numbers].to_numpy(np.float64)
    scale = np.nanstd(truth, 0)
    where = hidden[:, numbers]
    off = (found.table.iloc[:, numbers].to_numpy(np.float64) - truth) / scale
    record["nrmse"] = float(np.sqrt(np.mean(off[where] ** 2)))
    categories = [place for place in range(table.shape[1]) if place not in numbers]
    wrong = [
        (found.table.iloc[:, place].astype(object) != table.iloc[:, place].astype(object)).to_numpy()[hidden[:, place]]
        for place in categories
    ]
    record["wrong_classes"] = float(np.concatenate(wrong).mean()) if wrong else None
    asked = where[rows]
    if found.draws is not None:
        draws, values = (found.draws / scale)[:, asked], (truth / scale)[rows][asked]
        low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
        record["coverage"] = float(np.mean((values >= low - TIE) & (values <= high + TIE)))
        record["coverage_split"] = float(np.mean(split_coverage(draws, values)))
        record["crps"] = float(np.mean(crps(draws, values)))
    else:
        record["coverage"] = record["coverage_split"] = None
        record["crps"] = float(np.mean(np.abs(off[rows][asked])))
    return record


def split_coverage(draws: Floats, values: Floats) -> Floats:
    """(C,): the share of each value's rank among its draws (D, C) that lies in the central interval.

    An interval of a number on a few levels holds whole levels, and covers more often than it says. Here the mass of a
    level that the edge of the interval cuts counts in part: if values are distributed like their draws, the mean is
    0.9.

    >>> split_coverage(np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([0.0])).round(6)
    array([0.9])
    """
    below, upto = (draws < values - TIE).mean(0), (draws <= values + TIE).mean(0)
    low, high = (1 - LEVEL) / 2, (1 + LEVEL) / 2
    inside = np.clip(np.minimum(upto, high) - np.maximum(below, low), 0, None)
    tied = upto > below
    found: Floats = np.where(tied, inside / np.where(tied, upto - below, 1), (below >= low) & (below <= high))
    return found


def crps(draws: Floats, values: Floats) -> Floats:
    """The continuous ranked probability score (C,) of draws (D, C), without bias: E|X - x| - E|X - X'| / 2.

    >>> crps(np.array([[0.0], [1.0]]), np.array([0.0]))
    array([0.])
    """
    count = len(draws)
    weights = 2 * np.arange(1, count + 1) - count - 1
    between = 2 * (weights[:, None] * np.sort(draws, 0)).sum(0) / (count * (count - 1))
    found: Floats = np.abs(draws - values).mean(0) - between / 2
    return found
