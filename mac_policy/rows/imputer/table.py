"""Tables as users have them (numpy, pandas, lists) and as the engine needs them: numbers, NaN where none is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

WHOLE = 2**53  # from here on not every whole number is one in double precision
ADVICE = "the Imputer takes numbers; encode categories first, by pandas.get_dummies or an encoder of scikit-learn"


@dataclass(frozen=True)
class Table:
    """values: (rows, columns), NaN = missing, a copy; names: of the columns where all are strings; frame: the pandas
    DataFrame it was read from, if any; single: whether all of it came in single precision."""

    values: Floats
    names: tuple[str, ...] | None = None
    frame: Any = None
    single: bool = False

    def named(self, column: int) -> str:
        return repr(self.names[column]) if self.names else str(column)

    def like(self, values: Floats, kept: NDArray[np.bool_]) -> Any:
        """`values`, of the columns that are kept (columns,), in the form that the table came in: a DataFrame with its
        index, or an array; in its precision."""
        most = np.finfo(np.float32).max
        out = np.clip(values, -most, most).astype(np.float32) if self.single else values
        if self.frame is None:
            return out
        return type(self.frame)(out, index=self.frame.index, columns=self.frame.columns[kept])


def read_table(X: Any, estimator: str) -> Table:
    """Any table as numbers; a ValueError (of what is no number at all, also a TypeError) says what is wrong where.

    >>> from mac_policy.rows.imputer.table import read_table
    >>> read_table([[1, None], [True, 2.5]], "Imputer").values
    array([[1. , nan],
           [1. , 2.5]])
    """
    if hasattr(X, "toarray"):
        raise TypeError(
            f"A sparse matrix was passed, but dense data is required: {estimator} takes X.toarray(), where what is "
            "missing is NaN"
        )
    table = _from_frame(X) if _is_frame(X) else _from_array(X)
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
            "what is missing must be NaN, all else a finite number"
        )
    return table


def _is_frame(X: Any) -> bool:
    return hasattr(X, "columns") and hasattr(X, "iloc")


def _from_frame(frame: Any) -> Table:
    names = list(frame.columns)
    columns = [_from_series(frame.iloc[:, place], names[place]) for place in range(len(names))]
    values = np.stack(columns, 1) if columns else np.empty((len(frame), 0))
    are_text = [isinstance(name, str) for name in names]
    if any(are_text) and not all(are_text):
        raise TypeError("Feature names are only supported if all input features have string names: rename the columns")
    single = bool(names) and all(kind == np.float32 for kind in frame.dtypes)
    return Table(values, tuple(names) if names and all(are_text) else None, frame, single)


def _from_series(series: Any, name: Any) -> Floats:
    kind = getattr(series.dtype, "kind", "O")
    if getattr(series.dtype, "name", "") == "category" or kind in "mM":
        raise ValueError(f"column {name!r} holds values of type {series.dtype}, such as {series.iloc[0]!r}: {ADVICE}")
    if kind in "biuf":
        values = np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan), np.float64)
        return values if kind in "bf" else _whole(values[:, None], [name])[:, 0]
    return _from_objects(series.to_numpy(dtype=object)[:, None], [name])[:, 0]


def _from_array(X: Any) -> Table:
    mask = np.ma.getmaskarray(X) if isinstance(X, np.ma.MaskedArray) else False
    array = np.asarray(X)
    if np.any(mask):
        array = array.copy() if array.dtype.kind in "biufc" else array.astype(object)
        array[mask] = 0 if array.dtype.kind in "biufc" else None
    values = _numbers(array)
    values[np.broadcast_to(mask, values.shape)] = np.nan
    return Table(values, single=array.dtype == np.float32)


def _numbers(array: NDArray[Any]) -> Floats:
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported\n{array}\n")
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {array.ndim}D array instead:\narray={array}.\nReshape your data either using "
            "array.reshape(-1, 1) if your data has a single feature or array.reshape(1, -1) if it contains a single "
            "sample."
        )
    if array.dtype.kind in "bf":
        return array.astype(np.float64)
    if array.dtype.kind in "iu":
        return _whole(array.astype(np.float64), range(array.shape[1]))
    return _from_objects(array.astype(object), range(array.shape[1]))


def _whole(values: Floats, names: Sequence[Any]) -> Floats:
    """Whole numbers (rows, columns), none of which double precision would round."""
    large = np.argwhere(abs(values) >= WHOLE)
    if len(large):
        row, column = large[0]
        raise ValueError(_too_large(f"row {row}, column {names[column]!r} holds {values[row, column]:.0f}"))
    return values


def _too_large(where: str) -> str:
    return f"{where}: whole numbers must be below 2**53, so that none is rounded; take them off or scale them first"


def _from_objects(array: NDArray[Any], names: Sequence[Any]) -> Floats:
    """Numbers, NaN for None, NaN and pandas' NA; anything else is named, the first of it."""
    out = np.full(array.shape, np.nan)
    for place, value in np.ndenumerate(array):
        if isinstance(value, (Real, np.bool_)):
            if isinstance(value, Integral) and abs(int(value)) >= WHOLE:
                shown = value if abs(int(value)) < 2**64 else "a number beyond 2**64"
                raise ValueError(_too_large(f"row {place[0]}, column {names[place[1]]!r} holds {shown}"))
            out[place] = float(value)
        elif not (value is None or type(value).__name__ in ("NAType", "NaTType")):
            where = f"row {place[0]}, column {names[place[1]]!r} holds {value!r}"
            if isinstance(value, (str, bytes)):
                raise ValueError(f"could not convert to a number: {where}; {ADVICE}")
            raise TypeError(f"argument must be a string or a real number, not {type(value).__name__!r}: {where}")
    return out


def names_in(given: Any, fitted: NDArray[np.object_] | None, width: int) -> NDArray[np.object_]:
    """The names of the columns (width,): those given, which must be those of `fit`, else those of `fit`, else x0, ...

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


def check_same_columns(table: Table, width: int, names: Sequence[str] | None, estimator: str) -> list[str]:
    """Raise unless the table has the columns of `fit`; what there is to warn of."""
    if table.names is not None and names is not None and table.names != tuple(names):
        raise ValueError(difference(table.names, names))
    if table.values.shape[1] != width:
        raise ValueError(
            f"X has {table.values.shape[1]} features, but {estimator} is expecting {width} features as input"
        )
    if names is not None and table.names is None:
        return [f"X does not have valid feature names, but {estimator} was fitted with feature names"]
    if names is None and table.names is not None:
        return [f"X has feature names, but {estimator} was fitted without feature names"]
    return []


def difference(found: Sequence[str], fitted: Sequence[str]) -> str:
    message = "The feature names should match those that were passed during fit.\n"
    twice = sorted({name for name in found if list(found).count(name) > list(fitted).count(name) > 0})
    if twice:
        return f"{message}Feature names that X has more than once: {', '.join(map(repr, twice))}"
    unseen, lost = sorted(set(found) - set(fitted)), sorted(set(fitted) - set(found))
    for names, about in (
        (unseen, "Feature names unseen at fit time"),
        (lost, "Feature names seen at fit time, yet now missing"),
    ):
        if names:
            shown = [f"- {name}\n" for name in names[:5]] + ["- ...\n"] * (len(names) > 5)
            message += f"{about}:\n{''.join(shown)}"
    if not unseen and not lost:
        message += "Feature names must be in the same order as they were in fit.\n"
    return message
