"""The tables of the comparison, as pandas DataFrames: numbers in float64, categories as pandas' categories."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import datasets

from mac_policy.rows.sets.uci import published_uci, read_numbers, sole_file

Bools = NDArray[np.bool_]

DRAWN_BY_VALUE = "value"


def _of_sklearn(name: str, target: str | None) -> Callable[[Path | None], pd.DataFrame]:
    """A table that scikit-learn ships; `target`: the name of its classes as a column, None leaves a target out."""

    def load(root: Path | None) -> pd.DataFrame:
        found = getattr(datasets, f"load_{name}")()
        table = pd.DataFrame(found.data, columns=[str(each) for each in found.feature_names])
        table = table.loc[:, table.std() > 0].astype(np.float64)
        if target is not None:
            names = [str(each) for each in found.target_names]
            table[target] = pd.Categorical.from_codes(found.target, names)
        return table

    return load


def _diabetes(root: Path | None) -> pd.DataFrame:
    found = datasets.load_diabetes()
    table = pd.DataFrame(found.data, columns=found.feature_names)
    table["sex"] = pd.Categorical.from_codes((table["sex"] > 0).astype(int), ["1", "2"])
    return table.assign(progression=found.target)


def _uci(name: str) -> Callable[[Path | None], pd.DataFrame]:
    def load(root: Path | None) -> pd.DataFrame:
        folder = published_uci(name).locate(root, download=False)
        values = read_numbers(sole_file(folder, "data.txt") or folder / "data.txt")
        table = pd.DataFrame(values, columns=[f"x{place}" for place in range(values.shape[1])])
        return table.loc[:, table.std() > 0]

    return load


def _penguins(root: Path | None) -> pd.DataFrame:
    """With the missing values that it has: 19 cells, most of them in the column of the sex."""
    try:
        from palmerpenguins import load_penguins
    except ModuleNotFoundError:
        raise ValueError("the table penguins needs a package: pip install palmerpenguins") from None

    table = load_penguins()
    for name in ("species", "island", "sex", "year"):
        table[name] = pd.Categorical(table[name].map(str, na_action="ignore"))
    return table.astype(dict.fromkeys(table.select_dtypes("number"), np.float64))


TABLES: dict[str, Callable[[Path | None], pd.DataFrame]] = {
    "wine": _of_sklearn("wine", "cultivar"),
    "diabetes": _diabetes,
    "breast_cancer": _of_sklearn("breast_cancer", "diagnosis"),
    "iris": _of_sklearn("iris", "species"),
    "digits": _of_sklearn("digits", "digit"),
    "energy": _uci("energy"),
    "yacht": _uci("yacht"),
    "concrete": _uci("concrete"),
    "penguins": _penguins,
}


def is_category(column: pd.Series) -> bool:
    return isinstance(column.dtype, pd.CategoricalDtype)


def hidden_cells(table: pd.DataFrame, law: str, seed: int) -> Bools:
    """The cells to hide (rows, columns), of those that the table has.

    law: 'random-0.2' hides each cell with that probability; 'value-0.3' hides the cell of rank r in 0 .. 1 of its
    column with probability 0.6 r, so that great numbers (and late classes) are missing more often than small ones.
    At least one value of each column, and two different ones if there are, stay.
    """
    kind, share = law.split("-")
    generator = np.random.default_rng([seed, *law.encode()])
    chance = np.full(table.shape, float(share))
    if kind == DRAWN_BY_VALUE:
        ranks = [_codes(column).rank(pct=True).to_numpy() for _, column in table.items()]
        chance = np.nan_to_num(2 * float(share) * np.stack(ranks, 1))
    hidden = (generator.random(table.shape) < chance) & table.notna().to_numpy()
    for place, (_, column) in enumerate(table.items()):
        values = column.to_numpy()
        shuffled = generator.permutation(np.flatnonzero(column.notna()))
        other = [row for row in shuffled if values[row] != values[shuffled[0]]][:1]
        hidden[[shuffled[0], *other], place] = False
    return hidden


def _codes(column: pd.Series) -> pd.Series:
    return column.cat.codes.astype(float).where(column.notna()) if is_category(column) else column
