"""Numbers that look like a mark of missing values, such as -999."""

from __future__ import annotations

import numpy as np

from mac_policy.rows.columns.cells import Cells

GAP = 3.0
"""A mark is this many times the range of all other values away from the nearest of them."""
FEWEST_OTHERS = 3
"""Different values besides the mark, at least: two or three values alone are levels."""


def suspected_marker(cells: Cells) -> str | None:
    """What to say of a column whose least or greatest number is repeated and far from all others; None for others.

    >>> import numpy as np
    >>> from mac_policy.rows.columns.markers import suspected_marker
    >>> from mac_policy.rows.columns.reading import read_table
    >>> (cells,) = read_table({"age": np.array([31.0, 52, 47, -999, 28, -999])})
    >>> print(suspected_marker(cells).split(":")[0])
    column 'age' holds -999 in 2 rows, far from all others (28 to 52)
    """
    if not cells.are_numbers:
        return None
    values, counts = np.unique(cells.values[~cells.missing], return_counts=True)
    if len(values) <= FEWEST_OTHERS:
        return None
    halves = values / 2  # the range of any finite numbers is finite
    for end, nearest, others in ((0, 1, halves[1:]), (-1, -2, halves[:-1])):
        if counts[end] > 1 and abs(halves[end] - halves[nearest]) > GAP * (others[-1] - others[0]):
            mark = repr(float(values[end])).removesuffix(".0")
            return (
                f"column {cells.name!r} holds {mark} in {counts[end]} rows, far from all others ({2 * others[0]:g} to "
                f"{2 * others[-1]:g}): if it marks missing values, make them NaN (Imputer: missing_values={mark})"
            )
    return None
