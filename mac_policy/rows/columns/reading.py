"""Tables as users have them, read column by column: arrays, dictionaries of columns and pandas DataFrames.

pandas is never imported here: a DataFrame is recognised by its attributes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mac_policy.rows.columns.cells import Cells, Name, cells_of, check_whole, plain

ARRAY, MAPPING, FRAME = "array", "mapping", "frame"


def form_of(table: Any) -> str:
    """'frame' for a DataFrame, 'mapping' for a dictionary or a structured array, otherwise 'array'."""
    if hasattr(table, "columns") and hasattr(table, "iloc"):
        return FRAME
    fields = isinstance(table, np.ndarray) and table.dtype.names is not None
    return MAPPING if isinstance(table, Mapping) or fields else ARRAY


def read_table(table: Any, names: Sequence[Name] | None = None) -> list[Cells]:
    """The columns of a table. `names` are those of an array's columns (default: x0, x1, ...).

    A table is a numpy array, a torch tensor or a list of rows (R, C); a structured array; a mapping from names to
    columns (R,) or to single values (one row); a pandas DataFrame. None, NaN and pandas' NA are missing.
    """
    if hasattr(table, "toarray"):
        raise ValueError("a sparse matrix was given: pass its toarray(), in which missing values are NaN")
    form = form_of(table)
    read = {FRAME: _of_frame, MAPPING: _of_mapping}.get(form)
    columns = _of_array(table, names) if read is None else read(table)
    _check_names([cells.name for cells in columns])
    for cells in columns:
        if cells.are_numbers and np.isinf(cells.values).any():
            row = int(np.isinf(cells.values).argmax())
            raise ValueError(
                f"row {row}, column {cells.name!r} is {cells.values[row]}: values must be finite, or NaN if missing"
            )
    return columns


def _check_names(names: Sequence[Name]) -> None:
    for name in names:
        if not isinstance(name, (str, int)):
            raise ValueError(f"a column is named {name!r}: names of columns must be texts or whole numbers")
        if names.count(name) > 1:
            raise ValueError(f"{names.count(name)} columns are named {name!r}: each needs a name of its own")


def _of_frame(frame: Any) -> list[Cells]:
    return [_of_series(plain(name), frame.iloc[:, place]) for place, name in enumerate(frame.columns)]


def _of_series(name: Name, series: Any) -> Cells:
    dtype = str(series.dtype)
    kind = getattr(series.dtype, "kind", "O")
    if dtype == "category":
        classes = tuple(plain(value) for value in series.cat.categories)
        cells = cells_of(name, np.array(series, dtype=object), dtype)
        return Cells(name, cells.values, dtype, classes, bool(series.cat.ordered))
    if kind in "mMc":
        raise ValueError(f"column {name!r} holds values of type {dtype}: convert it to numbers or texts first")
    if kind in "iuf" and not isinstance(series.dtype, np.dtype):
        check_whole(name, series.dropna().to_numpy() if kind in "iu" else np.empty(0))
        return Cells(name, series.to_numpy(dtype=np.float64, na_value=np.nan), dtype)
    values = series.to_numpy()
    return cells_of(name, values if values.dtype.kind in "bifu" else np.array(series, dtype=object), dtype)


def _of_mapping(table: Any) -> list[Cells]:
    names = table.dtype.names if isinstance(table, np.ndarray) else list(table)
    columns = {plain(name): _column(name, table[name]) for name in names}
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        (first, n), (other, m) = next(
            ((a, b) for a in lengths.items() for b in lengths.items() if a[1] != b[1]),
        )
        raise ValueError(f"columns must be of one length, {first!r} has {n} rows and {other!r} has {m}")
    return [cells_of(name, values) for name, values in columns.items()]


def shown(value: Any) -> str:
    """A value and its type in a message, in few words."""
    text = repr(value)
    return f"{text if len(text) < 40 else text[:36] + ' ...'} of type {type(value).__name__}"


def _column(name: Any, values: Any) -> NDArray[Any]:
    """A column (R,); a single value is a column of one row."""
    array = _as_array(values)
    if array.ndim > 1:
        raise ValueError(f"column {name!r} has shape {array.shape}: it must have one value for each row")
    return np.atleast_1d(array)


def _of_array(table: Any, names: Sequence[Name] | None) -> list[Cells]:
    array = _as_array(table)
    if array.ndim != 2:
        given = f"an array of shape {array.shape}" if array.ndim and array.dtype.kind != "O" else shown(table)
        raise ValueError(
            f"a table must be an array of rows and columns, a mapping from names to columns or a DataFrame, got {given}"
        )
    names = [f"x{place}" for place in range(array.shape[1])] if names is None else names
    if len(names) != array.shape[1]:
        raise ValueError(f"the table has {array.shape[1]} columns, expected are {len(names)}: {list(names)}")
    return [cells_of(name, values) for name, values in zip(names, array.T, strict=True)]


def _as_array(values: Any) -> NDArray[Any]:
    if isinstance(values, np.ma.MaskedArray):
        array = np.asarray(values.astype(object).data)
        array[np.ma.getmaskarray(values)] = None
        return array
    if isinstance(values, np.ndarray):
        return values
    if hasattr(values, "detach"):
        return np.asarray(values.detach().cpu())
    if hasattr(values, "to_numpy"):
        return np.asarray(values.to_numpy())
    array = np.asarray(values)
    return np.asarray(values, dtype=object) if array.dtype.kind in "U" else array
