"""Names of columns: those of `fit`, and whether another table has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mac_policy.rows.imputer.table import Table


def names_in(given: Any, fitted: NDArray[np.object_] | None, width: int) -> NDArray[np.object_]:
    """The names of the columns (width,): those given, which must be those of `fit`, else those of `fit`, else x0, ...

    >>> from mac_policy.rows.imputer.names import names_in
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
