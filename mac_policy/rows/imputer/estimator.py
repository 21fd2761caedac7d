"""The Imputer: fills the holes of a table, as an estimator of scikit-learn does."""

from __future__ import annotations

import warnings
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mac_policy.common.checks import check_choice, check_count
from mac_policy.common.settings import check_value
from mac_policy.rows.imputer.answers import FILLS, filled, log_density
from mac_policy.rows.imputer.columns import Columns
from mac_policy.rows.imputer.sklearn_base import BaseEstimator, NotFittedError, TransformerMixin
from mac_policy.rows.imputer.table import Floats, Table, check_same_columns, names_in, read_table
from mac_policy.rows.imputer.training import ImputerSettings, seed_from, trained_model
from mac_policy.rows.model import AnyOrderRows
from mac_policy.training.streams import stream


class Imputer(TransformerMixin, BaseEstimator):
    """Fills what is missing (NaN) in a table of numbers, given all that is seen in the same row.

    One any-order model of the rows is trained on what is seen; it answers p(any column | any others), so that every
    pattern of holes, also one that `fit` never met, is filled from everything that is there.

    >>> import numpy as np
    >>> from mac_policy import Imputer
    >>> table = np.random.default_rng(0).normal(size=(300, 1)) * [1.0, 2.0, -1.0]
    >>> table[::3, 1] = np.nan
    >>> imputer = Imputer(steps=100, random_state=0).fit(table)
    >>> imputer.transform(table).shape, imputer.sample(table, n_samples=5).shape, imputer.score_samples(table).shape
    ((300, 3), (5, 300, 3), (300,))

    Parameters
    ----------
    fill : what `transform` puts into a hole: the conditional 'mean', 'median' or 'mode', or a 'sample' of the row.
    factorization : 'uniform' trains every question that `transform` can ask alike; 'mac' those on the canonical path,
        so that likelihoods and samples need no average over orders; holes off that path are filled less well.
    steps, batch_size, learning_rate : of the training; it stops early where the held-out rows no longer gain.
    width, depth, num_components : of the network, and how many Gaussians each conditional is a mixture of.
    dropout, noise : against learning a small table by heart; noise in standard deviations of a column.
    validation : the share of rows that choose the best weights (none where they would be fewer than 10).
    keep_empty_features : a column without any value in `fit` is dropped by `transform`, or kept and filled with 0.
    random_state : None, a number from 0 to 2**32 - 1, which makes everything repeatable, also where fits run in
        threads (they take turns), or a numpy RandomState or Generator.
    device : 'cpu', or where else torch can train ('auto' for what there is). What is asked is answered on the CPU.
    verbose : whether `fit` reports its progress.

    Attributes
    ----------
    n_features_in_, feature_names_in_ : of the table in `fit` (names where all of them are strings).
    empty_features_, constant_features_ : (columns,) bool. A constant column fills its holes with its constant.
    model_ : the trained model, None where no column varies; columns_ : scales and which columns it is made of.
    n_steps_, validation_loss_ : how long it trained, and the loss on held-out rows (NaN without any).
    """

    model_: AnyOrderRows | None

    def __init__(
        self,
        fill: str = "mean",
        *,
        factorization: str = "uniform",
        steps: int = 3000,
        batch_size: int = 256,
        learning_rate: float = 2e-3,
        width: int = 128,
        depth: int = 3,
        num_components: int = 8,
        dropout: float = 0.05,
        noise: float = 0.02,
        validation: float = 0.1,
        keep_empty_features: bool = False,
        random_state: Any = None,
        device: str = "cpu",
        verbose: bool = False,
    ) -> None:
        self.fill = fill
        self.factorization = factorization
        self.steps = steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.width = width
        self.depth = depth
        self.num_components = num_components
        self.dropout = dropout
        self.noise = noise
        self.validation = validation
        self.keep_empty_features = keep_empty_features
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Imputer:
        """Train on a table (rows, columns), NaN where a value is missing. `y` is not looked at."""
        settings, seed = self._settings(), seed_from(self.random_state)
        table = read_table(X, type(self).__name__)
        columns = Columns.of(table.values)
        self._warn_of_empty(table, columns)
        rows = columns.standardised(table.values)
        rows = rows[~np.isnan(rows).all(1)]  # a row without any value says nothing
        model, run = None, None
        if columns.varies.any():
            tensor = torch.from_numpy(rows.astype(np.float32))
            model, run = trained_model(tensor, settings, seed, quiet=not self.verbose)
        # Here at last: a fit that is broken off leaves what was there before.
        self._remember(table, columns, seed)
        self.model_, self.n_steps_ = model, run.step if run else 0
        self.validation_loss_ = float(run.best) if run and np.isfinite(run.best) else float("nan")
        return self

    def transform(self, X: Any) -> Any:
        """The table with every hole filled, in the form it came in (a DataFrame as one); what is seen comes back
        unchanged. The numbers are in single precision where all of X is, else in double precision, also where a column
        was of whole numbers or of True and False."""
        fill = check_choice("fill", self.fill, FILLS)
        table = self._read(X)
        if self.model_ is None:
            return self._table_of(None, table)
        return self._table_of(filled(*self._rows(table), fill, stream(self._seed, "transform")), table)

    def sample(self, X: Any, n_samples: int = 1, random_state: Any = None) -> Floats:
        """Draws of whole rows given what is seen in them, (n_samples, rows, columns): several fillings of the table.

        A row of holes alone is a new row. Without a `random_state` the draws are decided by that of the Imputer.
        Always an array in double precision.
        """
        count, table = check_count("n_samples", n_samples), self._read(X)
        seed = self._seed if random_state is None else seed_from(random_state)
        generator = stream(seed, "sample")
        if self.model_ is None:
            return np.stack([self._values_of(None, table)] * count)
        model, rows = self._rows(table)
        draws = filled(model, rows.repeat(count, 1), "sample", generator).view(count, *rows.shape)
        return np.stack([self._values_of(draw, table) for draw in draws])

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """log p(what is seen) of every row (rows,), in nats and in the table's own units; 0 where nothing is seen.

        Columns that were empty or constant in `fit` have no density and no part in it.
        """
        table = self._read(X)
        if self.model_ is None:
            return np.zeros(len(table.values))
        model, rows = self._rows(table)
        scales: Floats = np.log(self.columns_.scale[self.columns_.varies])
        found: NDArray[np.float64] = log_density(model, rows, self._seed).numpy()
        found -= (~rows.isnan().numpy() * scales).sum(1)
        return found

    def score(self, X: Any, y: Any = None) -> float:
        """The mean of `score_samples`."""
        return float(self.score_samples(X).mean())

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """The names of the columns that `transform` gives."""
        self._check_fitted()
        known = getattr(self, "feature_names_in_", None)
        kept: NDArray[np.object_] = names_in(input_features, known, self.n_features_in_)[self._kept()]
        return kept

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    # ---- what is between the table and the model ----

    def _settings(self) -> ImputerSettings:
        check_choice("fill", self.fill, FILLS)
        for name in ("keep_empty_features", "verbose"):
            check_value(name, getattr(self, name), bool)
        return ImputerSettings(**{field.name: getattr(self, field.name) for field in fields(ImputerSettings)})

    def _remember(self, table: Table, columns: Columns, seed: int) -> None:
        self.n_features_in_ = table.values.shape[1]
        if table.names is not None:
            self.feature_names_in_ = np.array(table.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.columns_, self._seed = columns, seed
        self.empty_features_, self.constant_features_ = columns.empty, ~columns.varies & ~columns.empty

    def _warn_of_empty(self, table: Table, columns: Columns) -> None:
        if columns.empty.any() and not self.keep_empty_features:
            named = ", ".join(table.named(int(place)) for place in np.flatnonzero(columns.empty))
            self._warn(
                f"columns without any value in fit: {named}. They will be dropped; keep_empty_features=True keeps them"
            )

    def _read(self, X: Any) -> Table:
        self._check_fitted()
        table = read_table(X, type(self).__name__)
        names = getattr(self, "feature_names_in_", None)
        for warning in check_same_columns(table, self.n_features_in_, names, type(self).__name__):
            self._warn(warning)
        return table

    def _rows(self, table: Table) -> tuple[AnyOrderRows, Tensor]:
        if self.model_ is None:
            raise ValueError("no column of the table in fit varies: there is no model")
        return self.model_, torch.from_numpy(self.columns_.standardised(table.values))

    def _kept(self) -> NDArray[np.bool_]:
        kept: NDArray[np.bool_] = ~self.empty_features_ | self.keep_empty_features
        return kept

    def _values_of(self, rows: Tensor | None, table: Table) -> Floats:
        inner = np.empty((len(table.values), 0)) if rows is None else rows.numpy()
        return self.columns_.restored(inner, table.values)[:, self._kept()]

    def _table_of(self, rows: Tensor | None, table: Table) -> Any:
        return table.like(self._values_of(rows, table), self._kept())

    def _check_fitted(self) -> None:
        if not hasattr(self, "columns_"):
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments before "
                "using this estimator."
            )

    @staticmethod
    def _warn(text: str) -> None:
        warnings.warn(text, UserWarning, stacklevel=4)
