"""Numbers and texts that look like a mark of missing values, such as -999 or NA, and numbers written as texts."""

from __future__ import annotations

import numpy as np

from mac_policy.rows.columns.cells import Cells

GAP = 3.0
"""A mark is this many times the range of all other values away from the nearest of them."""
FEWEST_OTHERS = 3
"""Different values besides the mark, at least: two or three values alone are levels."""

TEXT_MARKS = frozenset({"", "?", "-", ".", "na", "n/a", "#n/a", "nan", "null", "none", "missing", "unknown"})


def suspected(cells: Cells) -> str | None:
    """What to warn of before a column is used; None for nothing."""
    return suspected_marker(cells) if cells.are_numbers else suspected_text(cells)


def suspected_marker(cells: Cells) -> str | None:
    """What to say of a column whose least or greatest number is repeated and far from all others; None for others.

    >>> import numpy as np
    >>> from mac_policy.rows.columns.markers import suspected_marker
    >>> from mac_policy.rows.columns.reading import read_table
    >>> (cells,) = read_table({"age": np.array([31.0, 52, 47, -999, 28, -999])})
    >>> print(suspected_marker(cells).split(":")[0])
    column 'age' holds -999 in 2 rows, far from all others (28 to 52)
    """
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


def suspected_text(cells: Cells) -> str | None:
    """What to say of a column of texts with a class that looks like a mark, or whose texts are numbers.

    >>> from mac_policy.rows.columns.markers import suspected_text
    >>> from mac_policy.rows.columns.reading import read_table
    >>> print(suspected_text(read_table({"sex": ["m", "f", "NA", "f"]})[0]).split(":")[0])
    column 'sex' has the class 'NA' in 1 row
    >>> print(suspected_text(read_table({"age": ["31", "52", "", "52"]})[0]).split(":")[0])
    column 'age' holds numbers written as texts, such as '31', which are taken for classes
    """
    texts = [value for value in cells.values if isinstance(value, str)]
    marks = [text for text in texts if text.strip().lower() in TEXT_MARKS]
    others = [text for text in texts if text.strip().lower() not in TEXT_MARKS]
    if others and all(_is_number(text) for text in others):
        return (
            f"column {cells.name!r} holds numbers written as texts, such as {others[0]!r}, which are taken for "
            f"classes: convert them to numbers, or declare the column, kinds={{{cells.name!r}: 'categorical'}}"
        )
    if not marks:
        return None
    rows = sum(text == marks[0] for text in marks)
    return (
        f"column {cells.name!r} has the class {marks[0]!r} in {rows} row{'s' * (rows > 1)}: if it marks missing "
        f"values, make them None (Imputer: missing_values={marks[0]!r}), or declare the column, "
        f"kinds={{{cells.name!r}: 'categorical'}}"
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
