"""The imputers of the comparison. Each is fitted to an incomplete table and fills it in."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401 (enables the next import)
from sklearn.impute import IterativeImputer, KNNImputer

from benchmarks.imputation.tables import is_category
from mac_policy import Imputer

Floats = NDArray[np.float64]
DRAWS = 200
WIDE = 40  # encoded columns, from which the trees read the 30 that are nearest


class Filled(NamedTuple):
    """What an imputer makes of a table."""

    table: pd.DataFrame
    draws: Floats | None  # (DRAWS, rows that draws are asked for, number columns)
    fit_seconds: float  # of the processor
    transform_seconds: float
    warned: bool  # of iterations that did not converge


@dataclass(frozen=True)
class Ours:
    """This package's Imputer."""

    settings: tuple[tuple[str, Any], ...] = ()

    def describe(self) -> str:
        return repr(Imputer(**dict(self.settings)).get_params())

    def fill(self, table: pd.DataFrame, rows: NDArray[np.int64], seed: int) -> Filled:
        numbers = [place for place, name in enumerate(table) if not is_category(table[name])]
        begun = time.process_time()
        imputer = Imputer(random_state=seed, **dict(self.settings)).fit(table)
        fitted = time.process_time()
        found = imputer.transform(table)
        done = time.process_time()
        draws = imputer.sample(table.iloc[rows], DRAWS)[..., numbers].astype(np.float64)
        return Filled(found, draws, fitted - begun, done - fitted, False)


@dataclass(frozen=True)
class Encoded:
    """An imputer of numbers, on standardised numbers and one column for each class but the first.

    A category is the class of the greatest imputed value. make: the imputer for a seed and a number of columns;
    posterior: one whose imputations are drawn.
    """

    make: Callable[[int, int], Any]
    posterior: Callable[[int], Any] | None = None

    def describe(self) -> str:
        posterior = None if self.posterior is None else self.posterior(0)
        return f"{self.make(0, 1)!r}; wide: {self.make(0, WIDE + 1)!r}; draws: {posterior!r}"

    def fill(self, table: pd.DataFrame, rows: NDArray[np.int64], seed: int) -> Filled:
        encoding = Encoding(table)
        values = encoding.encode(table)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            begun = time.process_time()
            imputer = self.make(seed, values.shape[1]).fit(values)
            fitted = time.process_time()
            found = encoding.decode(imputer.transform(values), table)
            done = time.process_time()
            draws = None
            if self.posterior is not None and values.shape[1] <= WIDE:
                drawn = self.posterior(seed).fit(values)
                copies = drawn.transform(np.tile(values[rows], (DRAWS, 1)))  # each row is drawn by itself
                draws = encoding.numbers(copies).reshape(DRAWS, len(rows), -1)
        warned = any(issubclass(each.category, ConvergenceWarning) for each in caught)
        return Filled(found, draws, fitted - begun, done - fitted, warned)


@dataclass(frozen=True)
class MeanOrMostFrequent:
    """The mean of a column of numbers, the most frequent class of a category."""

    def describe(self) -> str:
        return "mean of numbers, most frequent class"

    def fill(self, table: pd.DataFrame, rows: NDArray[np.int64], seed: int) -> Filled:
        begun = time.process_time()
        fills = {name: (c.mode()[0] if is_category(c) else c.mean()) for name, c in table.items()}
        fitted = time.process_time()
        found = table.fillna(fills)
        return Filled(found, None, fitted - begun, time.process_time() - fitted, False)


class Encoding:
    """Standardised numbers and one column of 0 and 1 for each class but the first, NaN where a value is missing."""

    def __init__(self, table: pd.DataFrame) -> None:
        numbers = table[[name for name in table if not is_category(table[name])]]
        self.number_names, self.mean, self.std = list(numbers), numbers.mean(), numbers.std(ddof=0)
        self.classes = {name: list(table[name].cat.categories) for name in table if is_category(table[name])}

    def encode(self, table: pd.DataFrame) -> Floats:
        parts = [((table[self.number_names] - self.mean) / self.std).to_numpy(np.float64)]
        for name, classes in self.classes.items():
            codes = table[name].cat.codes.to_numpy()
            shown = (codes[:, None] == np.arange(1, len(classes))).astype(np.float64)
            parts.append(np.where(codes[:, None] < 0, np.nan, shown))
        return np.concatenate(parts, 1)

    def numbers(self, values: Floats) -> Floats:
        found: Floats = values[:, : len(self.number_names)] * self.std.to_numpy() + self.mean.to_numpy()
        return found

    def decode(self, values: Floats, table: pd.DataFrame) -> pd.DataFrame:
        """`table` with its missing cells from the encoded values."""
        out, begin = table.copy(), len(self.number_names)
        filled = pd.DataFrame(self.numbers(values), columns=self.number_names, index=table.index)
        out[self.number_names] = out[self.number_names].fillna(filled)
        for name, classes in self.classes.items():
            shown = values[:, begin : begin + len(classes) - 1]
            codes = np.concatenate([1 - shown.sum(1, keepdims=True), shown], 1).argmax(1)
            guessed = pd.Series(pd.Categorical.from_codes(codes, classes), index=table.index)
            out[name] = out[name].where(table[name].notna(), guessed)
            begin += len(classes) - 1
        return out


def _trees(seed: int, width: int) -> IterativeImputer:
    trees = ExtraTreesRegressor(n_estimators=50, random_state=seed, n_jobs=1)
    return IterativeImputer(trees, max_iter=5, n_nearest_features=30 if width > WIDE else None, random_state=seed)


OURS = "Imputer"
IMPUTERS: dict[str, Any] = {
    OURS: Ours(),
    "Bayesian ridge": Encoded(
        lambda seed, width: IterativeImputer(max_iter=20, random_state=seed),
        lambda seed: IterativeImputer(max_iter=20, sample_posterior=True, random_state=seed),
    ),
    "extra trees": Encoded(_trees),
    "5 neighbours": Encoded(lambda seed, width: KNNImputer()),
    "mean": MeanOrMostFrequent(),
}


def hyperimpute() -> Any:
    """HyperImpute with its default search, where the package is installed."""
    from hyperimpute.plugins.imputers import Imputers

    class Peer:
        def __repr__(self) -> str:
            return "HyperImpute with its default search"

        def fit(self, values: Floats) -> Any:
            self.values = values
            return self

        def transform(self, values: Floats) -> Floats:
            plugin = Imputers().get("hyperimpute", random_state=0)
            found: Floats = np.asarray(plugin.fit_transform(pd.DataFrame(values)), np.float64)
            refuse_means(found, values, "HyperImpute")
            return found

    return Encoded(lambda seed, width: Peer())


def refuse_means(found: Floats, values: Floats, name: str) -> None:
    """ValueError if every missing value has been filled with the mean of its column: the imputer has not run."""
    missing = np.isnan(values)
    means = np.broadcast_to(np.nanmean(values, 0), values.shape)
    if missing.any() and np.allclose(found[missing], means[missing]):
        raise ValueError(
            f"{name} has filled every missing value with the mean of its column, as it does where it fails in "
            f"silence (HyperImpute 0.1 with pandas {pd.__version__}): use pandas below 3, or leave it out"
        )


PEERS: dict[str, Callable[[], Any]] = {"hyperimpute": hyperimpute}
"""Imputers that are compared only where their package is installed and `--peers` names them."""
