"""The cells of one column as they are read from a table: numbers, or objects such as texts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Name: TypeAlias = str | int
Class: TypeAlias = str | int | float | bool

WHOLE = 2**53  # double precision represents every whole number below
MISSING_TYPES = ("NAType", "NaTType")  # pandas' own, by name: pandas is not imported
ADVICE = "write missing values as None or NaN, and numbers as numbers"


@dataclass(frozen=True)
class Cells:
    """The cells of one column.

    values: (R,) float64 with NaN where a number is missing, or objects with None where an object is; dtype: the type
    of the column in its table, by name; classes: those that a column of pandas' type 'category' declares, in order;
    whole: whether all are Python's or NumPy's whole numbers in a column of objects.
    """

    name: Name
    values: NDArray[Any]
    dtype: str
    classes: tuple[Class, ...] | None = None
    ordered: bool = False
    whole: bool = False

    @property
    def are_numbers(self) -> bool:
        return self.values.dtype.kind == "f"

    @property
    def missing(self) -> NDArray[np.bool_]:
        """(R,) bool."""
        if self.are_numbers:
            return np.asarray(np.isnan(self.values))
        return np.fromiter((value is None for value in self.values), np.bool_, len(self.values))

    def distinct(self) -> list[Any]:
        """The different observed values, in ascending order."""
        observed = self.values[~self.missing]
        return np.unique(observed).tolist() if self.are_numbers else sorted(set(observed.tolist()))


def cells_of(name: Name, values: NDArray[Any], dtype: str | None = None) -> Cells:
    """Cells from an array (R,) of numbers, bools, texts or objects. Bools and texts become objects.

    >>> import numpy as np
    >>> cells_of("a", np.array([1, None, 2.5], dtype=object)).values
    array([1. , nan, 2.5])
    """
    dtype = str(values.dtype) if dtype is None else dtype
    kind = values.dtype.kind
    if kind == "f":
        return Cells(name, values.astype(np.float64), dtype)
    if kind in "iu":
        check_whole(name, values)
        return Cells(name, values.astype(np.float64), dtype)
    if kind not in "bUO":
        raise ValueError(
            f"column {name!r} holds values of type {values.dtype}: allowed are numbers, bools and texts; convert them"
        )
    return _from_objects(name, values.astype(object), dtype)


def plain(value: Any) -> Any:
    """The value as one of Python's own types; None for a missing one."""
    if value is None or type(value).__name__ in MISSING_TYPES or (isinstance(value, Real) and value != value):
        return None
    return value.item() if isinstance(value, np.generic) else value


def _from_objects(name: Name, values: NDArray[Any], dtype: str) -> Cells:
    cells = [plain(value) for value in values]
    kinds = {_kind(name, row, value) for row, value in enumerate(cells) if value is not None}
    if str in kinds and len(kinds) > 1:
        text, other = (next(v for v in cells if v is not None and isinstance(v, str) == want) for want in (True, False))
        raise ValueError(f"column {name!r} holds both {text!r} and {other!r}: {ADVICE}")
    if kinds in ({bool}, {str}):
        return Cells(name, _objects(cells), dtype)
    whole = [value for value in cells if isinstance(value, Integral)]
    check_whole(name, whole)
    try:
        numbers = [np.nan if value is None else float(value) for value in cells]
    except OverflowError:
        raise ValueError(f"column {name!r} holds a number beyond double precision") from None
    all_whole = 0 < len(whole) == sum(value is not None for value in cells)
    return Cells(name, np.array(numbers, np.float64), dtype, whole=all_whole)


def _kind(name: Name, row: int, value: Any) -> type:
    for kind in (bool, str):
        if isinstance(value, kind):
            return kind
    if isinstance(value, Real):
        return float
    raise ValueError(
        f"row {row}, column {name!r} holds {value!r} of type {type(value).__name__}: "
        "allowed are numbers, bools and texts"
    )


def _objects(cells: Iterable[Any]) -> NDArray[np.object_]:
    listed = list(cells)
    out = np.empty(len(listed), dtype=object)
    out[:] = listed
    return out


def check_whole(name: Name, values: NDArray[Any] | list[Any]) -> None:
    """ValueError for a whole number that double precision cannot represent."""
    for value in values if isinstance(values, list) else [values.min(), values.max()] if values.size else []:
        if abs(int(value)) >= WHOLE:
            raise ValueError(
                f"column {name!r} holds {int(value)}: whole numbers must be below 2**53, so that none is rounded; "
                "drop the column or scale it first"
            )
