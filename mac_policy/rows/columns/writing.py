"""Tables from columns of values: arrays, dictionaries of columns and pandas DataFrames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mac_policy.rows.columns.cells import Name
from mac_policy.rows.columns.column import Column
from mac_policy.rows.columns.reading import ARRAY, FRAME, MAPPING

if TYPE_CHECKING:
    from mac_policy.rows.columns.columns import Columns

FORMS = (ARRAY, MAPPING, FRAME)


def write_table(
    columns: Columns,
    values: Mapping[Name, NDArray[Any]],
    form: str,
    index: Any = None,
    observed: Mapping[Name, NDArray[np.bool_]] | None = None,
) -> Any:
    """A table of this form from values (R,) by name, with the types of the columns. `observed` (R,) by name: values
    that no type may change."""
    fixed = observed or {}
    typed = {c.name: _typed(c, values[c.name], fixed.get(c.name)) for c in columns.all if c.name in values}
    if form == FRAME:
        return _frame(columns, typed, index)
    return typed if form == MAPPING else _array(list(typed.values()), columns.dtype)


def _typed(column: Column, values: NDArray[Any], observed: NDArray[np.bool_] | None = None) -> NDArray[Any]:
    """The values in the type that the column had, where that type can hold them."""
    found = _cast(column, values)
    if observed is None or column.is_categorical or found is values:
        return found
    return found if (found[observed].astype(np.float64) == values[observed]).all() else values


def _cast(column: Column, values: NDArray[Any]) -> NDArray[Any]:
    wanted = _numpy_type(column.dtype)
    if column.is_categorical:
        return values.astype(wanted) if wanted is not None and wanted.kind in "bUiuf" else values
    if column.kind == "integer" and column.dtype == "object" and np.isfinite(values).all():
        return np.array([int(value) for value in values], dtype=object)
    if wanted is None or wanted.kind not in "iuf" or (wanted.kind in "iu" and (values != np.rint(values)).any()):
        return values
    with np.errstate(over="ignore"):
        limits = np.finfo(wanted) if wanted.kind == "f" else np.iinfo(wanted)
        return np.asarray(np.clip(values, float(limits.min), float(limits.max)).astype(wanted))


def _numpy_type(name: str) -> np.dtype[Any] | None:
    try:
        return np.dtype(name)
    except TypeError:
        return None  # a type of pandas


def _array(typed: list[NDArray[Any]], dtype: str) -> NDArray[Any]:
    wanted = _numpy_type(dtype)
    if wanted is None or wanted.kind == "O" or any(values.dtype.kind == "O" for values in typed):
        out = np.empty((len(typed[0]) if typed else 0, len(typed)), dtype=object)
        for place, values in enumerate(typed):
            out[:, place] = values.astype(object)
        return out
    return np.stack(typed, 1) if typed else np.empty((0, 0))


def _frame(columns: Columns, values: Mapping[Name, NDArray[Any]], index: Any) -> Any:
    import pandas as pd

    shown = {c.name: _series(pd, c, values[c.name], index) for c in columns.all if c.name in values}
    return pd.DataFrame(shown, index=index)


def _series(pd: Any, column: Column, typed: NDArray[Any], index: Any) -> Any:
    if column.dtype == "category":
        held = pd.Categorical(typed, categories=list(column.classes), ordered=column.ordered)
        return pd.Series(held, index=index)
    return (
        pd.Series(typed, index=index)
        if _numpy_type(column.dtype) is not None
        else pd.Series(typed, index=index, dtype=column.dtype if _holds(column, typed) else None)
    )


def _holds(column: Column, values: NDArray[Any]) -> bool:
    """Whether a type of pandas can hold the values: one of whole numbers holds no fractions, and has bounds."""
    if not column.dtype.lower().startswith(("int", "uint")):
        return True
    limits = np.iinfo(column.dtype.lower())
    return bool(((values == np.rint(values)) & (values >= limits.min) & (values <= limits.max)).all())
