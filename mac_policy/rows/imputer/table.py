"""Tables of users (numpy arrays, pandas DataFrames, lists) as floating-point arrays, NaN where a value is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

WHOLE = 2**53  # double precision represents every whole number below
ADVICE = "the Imputer takes numbers; encode categories first, by pandas.get_dummies or an encoder of scikit-learn"


@dataclass(frozen=True)
class Table:
    """values: a copy of the data (rows, columns), NaN = missing; names: the column names if all of them are strings;
    frame: the pandas DataFrame that the table was read from, if any; single: whether the data was in float32."""

    values: Floats
    names: tuple[str, ...] | None = None
    frame: Any = None
    single: bool = False

    def named(self, column: int) -> str:
        return repr(self.names[column]) if self.names else str(column)

    def like(self, values: Floats, kept: NDArray[np.bool_]) -> Any:
        """`values` of the columns in the mask `kept` (columns,), in the precision of the table and as a DataFrame with
        the same index if the table was one."""
        most = np.finfo(np.float32).max
        out = np.clip(values, -most, most).astype(np.float32) if self.single else values
        if self.frame is None:
            return out
        return type(self.frame)(out, index=self.frame.index, columns=self.frame.columns[kept])


def read_table(X: Any, estimator: str) -> Table:
    """Convert X to a `Table`.

    Raises ValueError with the row and column of an invalid value, and TypeError for an object that is not a number.

    >>> from mac_policy.rows.imputer.table import read_table
    >>> read_table([[1, None], [True, 2.5]], "Imputer").values
    array([[1. , nan],
           [1. , 2.5]])
    """
    if hasattr(X, "toarray"):
        raise TypeError(
            f"A sparse matrix was passed, but dense data is required: {estimator} takes X.toarray(), in which "
            "missing values are NaN"
        )
    table = _from_frame(X) if hasattr(X, "columns") and hasattr(X, "iloc") else _from_array(X)
    rows, columns = table.values.shape
    for count, what in ((rows, "sample"), (columns, "feature")):
        if count == 0:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape={(rows, columns)}) while a minimum of 1 is required by "
                f"{estimator}."
            )
    infinite = np.argwhere(np.isinf(table.values))
    if len(infinite):
        row, column = infinite[0]
        raise ValueError(
            f"Input X contains infinity: row {row}, column {table.named(column)} is {table.values[row, column]}; "
            "values must be finite, or NaN if they are missing"
        )
    return table


def _from_frame(frame: Any) -> Table:
    names = list(frame.columns)
    values = _stacked([_from_series(frame.iloc[:, place], name) for place, name in enumerate(names)], len(frame))
    are_text = [isinstance(name, str) for name in names]
    if any(are_text) and not all(are_text):
        raise TypeError("Feature names are only supported if all input features have string names: rename the columns")
    single = bool(names) and all(kind == np.float32 for kind in frame.dtypes)
    return Table(values, tuple(names) if names and all(are_text) else None, frame, single)


def _from_series(series: Any, name: Any) -> Floats:
    kind = getattr(series.dtype, "kind", "O")
    if getattr(series.dtype, "name", "") == "category" or kind in "mM":
        raise ValueError(f"column {name!r} holds values of type {series.dtype}, such as {series.iloc[0]!r}: {ADVICE}")
    if kind in "bf":
        return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan), np.float64)
    if kind in "iu" and not series.hasnans:
        return _numbers(series.to_numpy(dtype=f"{kind}8"), name)
    return _numbers(series.to_numpy(dtype=object), name)


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
    single = array.dtype == np.float32
    if isinstance(X, np.ma.MaskedArray):
        array = array.astype(object)
        array[np.ma.getmaskarray(X)] = None
    if array.dtype.kind in "bf":
        return Table(array.astype(np.float64), single=single)
    columns = [_numbers(values, place) for place, values in enumerate(array.T)]
    return Table(_stacked(columns, len(array)), single=single)


def _stacked(columns: Sequence[Floats], rows: int) -> Floats:
    return np.stack(columns, 1) if columns else np.empty((rows, 0))


def _numbers(values: NDArray[Any], name: Any) -> Floats:
    """One column (rows,) of whole numbers or objects as numbers; NaN for None, NaN and pandas' NA."""
    if values.dtype.kind in "iu" and (abs(values.astype(np.float64)) < WHOLE).all():
        return values.astype(np.float64)
    out = np.full(len(values), np.nan)
    for row, value in enumerate(values.astype(object)):
        where = f"row {row}, column {name!r} holds"
        if isinstance(value, (Real, np.bool_)):
            if isinstance(value, Integral) and abs(int(value)) >= WHOLE:
                shown = value if abs(int(value)) < 2**64 else "a number beyond 2**64"
                raise ValueError(
                    f"{where} {shown}: whole numbers must be below 2**53, so that none is rounded; "
                    "drop the column or scale it first"
                )
            out[row] = float(value)
        elif isinstance(value, (str, bytes)):
            raise ValueError(f"could not convert to a number: {where} {value!r}; {ADVICE}")
        elif not (value is None or type(value).__name__ in ("NAType", "NaTType")):
            kind = type(value).__name__
            raise TypeError(f"argument must be a string or a real number, not {kind!r}: {where} {value!r}")
    return out


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
    if table.values.shape[1] != width:
        raise ValueError(
            f"X has {table.values.shape[1]} features, but {estimator} is expecting {width} features as input"
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
