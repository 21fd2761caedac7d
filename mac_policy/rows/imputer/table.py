"""Tables of users as the Imputer reads them: checked as scikit-learn's estimators check theirs, with their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mac_policy.rows.columns.reading import FRAME, form_of

TEXTS = (str, bytes, bool, np.bool_)


@dataclass(frozen=True)
class Table:
    """A table and the names of its columns.

    data: an array (rows, columns) or a pandas DataFrame, None or NaN where a value is missing; keys: the names of its
    columns, which are their numbers unless all of them are different texts; names: the column names if all are texts;
    whole: whether it is an array of floats that was one of whole numbers before its marker was taken out.
    """

    data: Any
    keys: tuple[Any, ...]
    names: tuple[str, ...] | None = None
    whole: bool = False

    @property
    def is_frame(self) -> bool:
        return form_of(self.data) == FRAME

    def taken(self, kept: NDArray[np.bool_]) -> Any:
        """The columns in the mask `kept`, a DataFrame with `keys` as names or an array."""
        if self.is_frame:
            return self.data.set_axis(list(self.keys), axis=1).loc[:, kept]
        return self.data[:, kept]

    def renamed(self, found: Any, kept: NDArray[np.bool_]) -> Any:
        """A DataFrame `found` of the columns in the mask `kept` with the column names of the data."""
        return found.set_axis(self.data.columns[kept], axis=1) if self.is_frame else found


def read_table(X: Any, estimator: str, missing_values: Any = np.nan) -> Table:
    """Read X, an array, a list of rows or a DataFrame, in which NaN, None, pandas' NA and `missing_values` are missing.

    >>> from mac_policy.rows.imputer.table import read_table
    >>> read_table([[1, -1], [2, 2.5]], "Imputer", missing_values=-1).data
    array([[1. , nan],
           [2. , 2.5]])
    """
    if hasattr(X, "toarray"):
        raise TypeError(
            f"A sparse matrix was passed, but dense data is required: {estimator} takes X.toarray(), in which "
            "missing values are NaN"
        )
    table = _from_frame(X) if form_of(X) == FRAME else _from_array(X)
    for count, what in zip(table.data.shape, ("sample", "feature"), strict=True):
        if count == 0:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape={tuple(table.data.shape)}) while a minimum of 1 is required by "
                f"{estimator}."
            )
    return _without(table, missing_values)


def _from_frame(frame: Any) -> Table:
    names = list(frame.columns)
    are_text = [isinstance(name, str) for name in names]
    if any(are_text) and not all(are_text):
        raise TypeError("Feature names are only supported if all input features have string names: rename the columns")
    texts = tuple(names) if names and all(are_text) else None
    keys = texts if texts and len(set(texts)) == len(texts) else tuple(range(len(names)))
    return Table(frame, keys, texts)


def _from_array(X: Any) -> Table:
    array = np.asarray(X)
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported\n{array}\n")
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {array.ndim}D array instead:\narray={array}.\nReshape your data either using "
            "array.reshape(-1, 1) if your data has a single feature or array.reshape(1, -1) if it contains a single "
            "sample."
        )
    if isinstance(X, np.ma.MaskedArray):
        array = array.astype(object)
        array[np.ma.getmaskarray(X)] = None
    elif array.dtype.kind in "US" and not isinstance(X, np.ndarray):
        array = np.asarray(X, dtype=object)  # numpy makes texts of a list's numbers and None
    if array.dtype.kind == "O":
        _check_objects(array)
    return Table(array, tuple(range(array.shape[1])))


def _check_objects(array: NDArray[Any]) -> None:
    for (row, column), value in np.ndenumerate(array):
        if not (value is None or isinstance(value, (Real, *TEXTS)) or type(value).__name__ in ("NAType", "NaTType")):
            kind = type(value).__name__
            raise TypeError(
                f"argument must be a string or a real number, not {kind!r}: row {row}, column {column} holds {value!r}"
            )


def _without(table: Table, missing_values: Any) -> Table:
    """The table with NaN in place of `missing_values`."""
    if missing_values is None or (isinstance(missing_values, Real) and missing_values != missing_values):
        return table
    if table.is_frame:
        return Table(_frame_without(table.data, missing_values), table.keys, table.names)
    data = table.data
    wrong = np.asarray(data == missing_values)
    if wrong.shape != data.shape or not wrong.any():
        return table
    whole = data.dtype.kind in "iu"
    data = data.astype(np.float64 if whole else data.dtype if data.dtype.kind == "f" else object)
    data[wrong] = np.nan if data.dtype.kind == "f" else None
    return Table(data, table.keys, table.names, whole)


def _frame_without(frame: Any, missing_values: Any) -> Any:
    """The frame with missing values in place of `missing_values`; columns of whole numbers stay such, in pandas' type
    that can hold missing ones, and the marker is no class of a category."""
    found = frame.copy()
    for place in range(frame.shape[1]):
        series = frame.iloc[:, place]
        hits = (series == missing_values).fillna(False).to_numpy(dtype=bool)
        if not hits.any():
            continue
        if isinstance(series.dtype, np.dtype) and series.dtype.kind in "iu":
            series = series.astype(series.dtype.name.replace("int", "Int").replace("uI", "UI"))
        masked = series.mask(hits)
        if str(series.dtype) == "category":
            masked = masked.cat.remove_categories([missing_values])
        found.isetitem(place, masked)
    return found


def check_marker(missing_values: Any) -> None:
    """ValueError for what no cell can be."""
    is_missing = missing_values is None or type(missing_values).__name__ in ("NAType", "NaTType")
    if not is_missing and not isinstance(missing_values, (Real, *TEXTS)):
        raise ValueError(f"missing_values must be a number, a text, NaN or None, got {missing_values!r}")


def names_in(given: Any, fitted: NDArray[np.object_] | None, width: int) -> NDArray[np.object_]:
    """The column names (width,): `given`, which must equal those of `fit`, else those of `fit`, else x0, x1, ...

    >>> from mac_policy.rows.imputer.table import names_in
    >>> names_in(None, None, 2).tolist()
    ['x0', 'x1']
    """
    if given is None:
        return fitted if fitted is not None else np.array([f"x{place}" for place in range(width)], dtype=object)
    names = np.asarray(given, dtype=object)
    if fitted is not None and not np.array_equal(fitted, names):
        raise ValueError("input_features is not equal to feature_names_in_")
    if len(names) != width:
        raise ValueError(f"input_features should have length equal to number of features ({width}), got {len(names)}")
    return names


def check_same_columns(table: Table, width: int, names: Sequence[str] | None, estimator: str) -> str | None:
    """ValueError unless the table has the columns of `fit`. Returns the text of a warning, if any."""
    if table.names is not None and names is not None and table.names != tuple(names):
        raise ValueError(difference(table.names, names))
    if table.data.shape[1] != width:
        raise ValueError(
            f"X has {table.data.shape[1]} features, but {estimator} is expecting {width} features as input"
        )
    if (names is None) == (table.names is None):
        return None
    if names is None:
        return f"X has feature names, but {estimator} was fitted without feature names"
    return f"X does not have valid feature names, but {estimator} was fitted with feature names"


def difference(found: Sequence[str], fitted: Sequence[str]) -> str:
    message = "The feature names should match those that were passed during fit.\n"
    twice = sorted({name for name in found if list(found).count(name) > list(fitted).count(name) > 0})
    if twice:
        return f"{message}Feature names that X has more than once: {', '.join(map(repr, twice))}"
    unseen, lost = sorted(set(found) - set(fitted)), sorted(set(fitted) - set(found))
    if not unseen and not lost:
        return f"{message}Feature names must be in the same order as they were in fit.\n"
    for names, about in ((unseen, "unseen at fit time"), (lost, "seen at fit time, yet now missing")):
        shown = [f"- {name}\n" for name in names[:5]] + ["- ...\n"] * (len(names) > 5)
        message += f"Feature names {about}:\n{''.join(shown)}" if names else ""
    return message
