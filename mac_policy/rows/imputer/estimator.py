"""The Imputer: imputation of missing values, as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mac_policy.common.checks import check_choice, check_count
from mac_policy.common.settings import check_value
from mac_policy.rows.columns.columns import Columns
from mac_policy.rows.columns.reading import read_table as read_columns
from mac_policy.rows.imputer.answers import FILLS, class_probabilities, filled, log_density
from mac_policy.rows.imputer.bounds import encoded_bounds
from mac_policy.rows.imputer.sklearn_base import BaseEstimator, NotFittedError, TransformerMixin
from mac_policy.rows.imputer.table import Table, check_marker, check_same_columns, names_in, read_table
from mac_policy.rows.imputer.training import ImputerSettings, check_threads, seed_from, threads, trained_model
from mac_policy.rows.model import AnyOrderRows
from mac_policy.training.streams import stream

INDICATOR = "missingindicator_"

FORMAT = 2
"""Of what pickle stores of a fitted Imputer."""


class Imputer(TransformerMixin, BaseEstimator):
    """Imputes the missing values of a table of numbers and categories, given the observed values of the same row.

    `fit` trains one any-order model of the rows on the observed values: an ensemble of small networks that correct a
    joint Gaussian. The model answers p(any column | any others), so that every missing-value pattern, including
    patterns absent from the training table, is imputed from all observed values of the row.

    A column of texts, bools or pandas' type 'category' is a category: its missing values are imputed with classes. A
    column of a type of whole numbers is imputed with whole numbers. NaN, None and pandas' NA are missing.

    >>> import numpy as np
    >>> from mac_policy import Imputer
    >>> table = np.random.default_rng(0).normal(size=(300, 1)) * [1.0, 2.0, -1.0]
    >>> table[::3, 1] = np.nan
    >>> imputer = Imputer(steps=100, random_state=0).fit(table)
    >>> imputer.transform(table).shape, imputer.sample(table, n_samples=5).shape, imputer.score_samples(table).shape
    ((300, 3), (5, 300, 3), (300,))

    Parameters
    ----------
    fill : what `transform` imputes: the 'mean', 'median' or 'mode' of p(column | observed values), or a 'sample' of all
        missing values of the row. Categories are imputed with their most probable class, or sampled.
    missing_values : a further value that stands for a missing one, such as -999 or ''.
    kinds : what columns hold, by name (by number for an array): 'real', 'integer', 'categorical' or a list of classes;
        for columns that are not to be read by their type.
    min_value, max_value : bounds of imputed numbers: one number, one for each column, or 'seen' for the smallest and
        greatest value of each column in `fit`.
    add_indicator : whether `transform` appends a column 'missingindicator_<name>' for each column with missing values
        in `fit`.
    keep_empty_features : whether a column without observed values in `fit` is kept and imputed with 0; by default,
        `transform` drops it.
    factorization : 'uniform' trains all conditionals that `transform` can query, half of the time with nearly all
        columns known. 'mac' trains those on the canonical path, so that likelihoods and samples need no average over
        orders; patterns off that path are imputed less accurately.
    members : networks of the ensemble. Each holds out rows of its own.
    steps, patience : most steps of the training, and steps without a gain in the validation loss after which it stops.
    batch_size, learning_rate : rows of a step, of all members together (fewer of a table with more than 40 columns); of
        the optimiser.
    width, depth : size of a network; num_components : number of Gaussians in the mixture of each conditional.
    dropout, noise : regularisation for small tables; `noise` is in standard deviations of a column.
    validation : share of rows that each member holds out to choose the best weights and to calibrate the samples (no
        rows if they would be fewer than 5).
    random_state : None, an integer from 0 to 2**32 - 1, which makes all results reproducible (also of fits in several
        threads, which run one after another), or a numpy RandomState or Generator.
    n_jobs : threads of `fit`, -1 for all processors; None is one. More threads pay for tables with many columns alone:
        the steps of a small table are so short that threads wait for each other longer than they compute.
    device : device of the training, such as 'cpu' or 'cuda', or 'auto'. Predictions are always made on the CPU.
    verbose : whether `fit` reports its progress (1) or not (0).

    Attributes
    ----------
    n_features_in_, feature_names_in_ : number and names of the columns in `fit` (names only if all are strings).
    empty_features_, constant_features_ : (columns,) bool. Missing values of a constant column are imputed with the
        constant.
    columns_ : the columns that `transform` returns: kinds, classes, scales; those that vary are the model's variables.
    model_ : the trained model, None if no column varies.
    n_steps_, validation_loss_ : number of training steps and loss on the held-out rows, in nats for each variable with
        numbers standardised (NaN without held-out rows).
    """

    model_: AnyOrderRows | None

    def __init__(
        self,
        fill: str = "mean",
        *,
        missing_values: Any = np.nan,
        kinds: Any = None,
        min_value: Any = -np.inf,
        max_value: Any = np.inf,
        add_indicator: bool = False,
        keep_empty_features: bool = False,
        factorization: str = "uniform",
        members: int = 4,
        steps: int = 2000,
        patience: int = 300,
        batch_size: int = 480,
        learning_rate: float = 5e-3,
        width: int = 64,
        depth: int = 2,
        num_components: int = 3,
        dropout: float = 0.1,
        noise: float = 0.02,
        validation: float = 0.2,
        random_state: Any = None,
        n_jobs: int | None = None,
        device: str = "cpu",
        verbose: int | bool = 0,
    ) -> None:
        self.fill = fill
        self.missing_values = missing_values
        self.kinds = kinds
        self.min_value = min_value
        self.max_value = max_value
        self.add_indicator = add_indicator
        self.keep_empty_features = keep_empty_features
        self.factorization = factorization
        self.members = members
        self.steps = steps
        self.patience = patience
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.width = width
        self.depth = depth
        self.num_components = num_components
        self.dropout = dropout
        self.noise = noise
        self.validation = validation
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.device = device
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Imputer:
        """Train on a table (rows, columns) with missing values. `y` is ignored."""
        settings, seed = self._settings(), seed_from(self.random_state)
        table = read_table(X, type(self).__name__, self.missing_values)
        everything = np.ones(len(table.keys), dtype=bool)
        kinds = self.kinds
        if table.whole and (kinds is None or isinstance(kinds, Mapping)):
            kinds = {**dict.fromkeys(table.keys, "integer"), **(kinds or {})}
        columns = Columns.of(table.taken(everything), kinds, table.keys, find_integers=False)
        empty = np.array([column.empty for column in columns.all])
        if empty.any() and not self.keep_empty_features:
            named = ", ".join(repr(column.name) for column in columns.all if column.empty)
            text = (
                f"columns without any value in fit: {named}. They will be dropped; keep_empty_features=True keeps them"
            )
            warnings.warn(text, UserWarning, stacklevel=2)
        constant = np.array([not column.varies and not column.empty for column in columns.all])
        with_missing = np.array([bool(each.missing.any()) for each in columns.read(table.taken(everything)).values()])
        kept = ~empty | self.keep_empty_features
        columns = replace(columns, all=tuple(c for c, keep in zip(columns.all, kept, strict=True) if keep))
        bounds = encoded_bounds(columns, self.min_value, self.max_value, kept)
        model, run = None, None
        if columns.variables:
            rows = _rows(columns, table.taken(kept))
            rows = rows[~rows.isnan().all(1)]  # rows without observed values carry no information
            with threads(self.n_jobs):
                model, run = trained_model(rows, columns, settings, seed, quiet=not self.verbose)
        # Attributes are set last: an interrupted fit leaves the estimator as it was.
        self.n_features_in_ = len(table.keys)
        if table.names is not None:
            self.feature_names_in_ = np.array(table.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self._format = FORMAT
        self.columns_, self._seed, self._bounds, self._kept, self._indicated = columns, seed, bounds, kept, with_missing
        self.empty_features_, self.constant_features_ = empty, constant
        self.model_, self.n_steps_ = model, run.step if run else 0
        self.validation_loss_ = float(run.best) if run and np.isfinite(run.best) else float("nan")
        return self

    def transform(self, X: Any) -> Any:
        """The table with every missing value imputed; observed values are returned unchanged.

        A DataFrame is returned for a DataFrame, otherwise an array, with the types of `fit`.
        """
        fill = check_choice("fill", self.fill, FILLS)
        table = self._read(X)
        data = table.taken(self._kept)
        if self._kept.any():
            rows = _rows(self.columns_, data)
            rows = self._bounded(rows, filled(self.model_, rows, fill, stream(self._seed, "transform")))
            data = table.renamed(self.columns_.complete(data, rows), self._kept)
        return self._with_indicator(data, table) if self.add_indicator else data

    def sample(self, X: Any, n_samples: int = 1, random_state: Any = None) -> NDArray[Any]:
        """Multiple imputations: samples of all missing values of each row, (n_samples, rows, columns).

        The array is of type float64, or object if a column is a category. A row without observed values is a sample
        from the joint distribution. Without a `random_state`, the samples are determined by that of the Imputer.
        """
        count, table = check_count("n_samples", n_samples), self._read(X)
        generator = stream(self._seed if random_state is None else seed_from(random_state), "sample")
        data, columns = table.taken(self._kept), self.columns_
        rows = _rows(columns, data).repeat(count, 1)
        decoded = columns.decode_columns(self._bounded(rows, filled(self.model_, rows, "sample", generator)))
        dtype = object if any(column.is_categorical for column in columns.all) else np.float64
        out = np.empty((count, len(rows) // count, len(columns.all)), dtype=dtype)
        for place, (name, cells) in enumerate(columns.read(data).items()):
            drawn = decoded[name].reshape(count, -1)
            out[..., place] = np.where(cells.missing, drawn, cells.values)
        return out

    def class_probabilities(self, X: Any) -> dict[Any, NDArray[np.float64]]:
        """p(class | observed values of the row), (rows, classes) for each categorical column by name (by number for an
        array), in the order of its classes in `columns_`. An observed class has probability 1.
        """
        rows = _rows(self.columns_, self._read(X).taken(self._kept))
        if self.model_ is None:
            return {}
        found = class_probabilities(self.model_, rows)
        return {self.columns_.variables[place].name: each.numpy() for place, each in found.items()}

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """log p(observed values) of every row (rows,), in nats and in the units of the table; 0 for an empty row.

        Columns that were empty or constant in `fit` have no density and are left out.
        """
        table = self._read(X)
        if self.model_ is None:
            return np.zeros(len(table.data))
        rows = _rows(self.columns_, table.taken(self._kept))
        scales = torch.where(rows.isnan(), 0.0, self.columns_.log_scales()).sum(1)
        found: NDArray[np.float64] = (log_density(self.model_, rows, self._seed) - scales).numpy()
        return found

    def score(self, X: Any, y: Any = None) -> float:
        """The mean of `score_samples`."""
        return float(self.score_samples(X).mean())

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """The names of the columns that `transform` returns."""
        self._check_fitted()
        names = names_in(input_features, getattr(self, "feature_names_in_", None), self.n_features_in_)
        added = [f"{INDICATOR}{name}" for name in names[self._indicated]] if self.add_indicator else []
        found: NDArray[np.object_] = np.concatenate([names[self._kept], np.array(added, dtype=object)])
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags

    # ---- between the table and the model ----

    def __setstate__(self, state: Any) -> None:
        if "columns_" in state and state.get("_format") != FORMAT:
            raise ValueError(
                "this Imputer was stored by an earlier version of mac_policy, whose model this version would misread: "
                "fit it again"
            )
        restore = getattr(super(), "__setstate__", self.__dict__.update)
        restore(state)

    def _settings(self) -> ImputerSettings:
        check_choice("fill", self.fill, FILLS)
        for name in ("keep_empty_features", "add_indicator"):
            check_value(name, getattr(self, name), bool)
        check_marker(self.missing_values)
        if not isinstance(self.verbose, bool):
            check_count("verbose", self.verbose, 0)
        check_threads(self.n_jobs)
        return ImputerSettings(**{field.name: getattr(self, field.name) for field in fields(ImputerSettings)})

    def _read(self, X: Any) -> Table:
        self._check_fitted()
        table = read_table(X, type(self).__name__, self.missing_values)
        names = getattr(self, "feature_names_in_", None)
        warning = check_same_columns(table, self.n_features_in_, names, type(self).__name__)
        if warning is not None:
            warnings.warn(warning, UserWarning, stacklevel=3)
        if not table.is_frame or names is None or len(set(names)) < len(names):
            return table
        return replace(table, keys=tuple(names))

    def _bounded(self, rows: Tensor, full: Tensor) -> Tensor:
        """Imputed numbers within the bounds; observed ones stay."""
        low, high = self._bounds
        return torch.where(rows.isnan(), full.clamp(low, high), full)

    def _with_indicator(self, data: Any, table: Table) -> Any:
        everything = np.ones(self.n_features_in_, dtype=bool)
        cells = read_columns(table.taken(everything), None if table.is_frame else table.keys)
        flags = [each.missing for each, wanted in zip(cells, self._indicated, strict=True) if wanted]
        if table.is_frame:
            names = names_in(None, getattr(self, "feature_names_in_", None), self.n_features_in_)[self._indicated]
            added = {f"{INDICATOR}{name}": flag for name, flag in zip(names, flags, strict=True)}
            if taken := sorted({*added} & {*map(str, data.columns)}):
                raise ValueError(f"add_indicator adds the columns {taken}, which the table has already: rename them")
            return data.assign(**added)
        return np.concatenate([data, np.array(flags, dtype=data.dtype).reshape(len(flags), len(data)).T], 1)

    def _check_fitted(self) -> None:
        if not hasattr(self, "columns_"):
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments before "
                "using this estimator."
            )


def _rows(columns: Columns, data: Any) -> Tensor:
    """The variables of a table (R, N), NaN = missing."""
    values, missing = columns.encode(data)
    return values.masked_fill(missing, torch.nan)
