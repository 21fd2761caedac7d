"""The Imputer: imputation of missing values, as a scikit-learn estimator."""

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
    """Imputes the missing values (NaN) of a numeric table, given the observed values of the same row.

    `fit` trains one any-order model of the rows on the observed values. The model answers p(any column | any others),
    so that every missing-value pattern, including patterns absent from the training table, is imputed from all observed
    values of the row.

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
        missing values of the row.
    factorization : 'uniform' trains all conditionals that `transform` can query with equal weight. 'mac' trains those
        on the canonical path, so that likelihoods and samples need no average over orders; patterns off that path are
        imputed less accurately.
    steps, batch_size, learning_rate : of the training, which stops early if the validation loss no longer improves.
    width, depth : size of the network; num_components : number of Gaussians in the mixture of each conditional.
    dropout, noise : regularisation for small tables; `noise` is in standard deviations of a column.
    validation : share of rows that are held out to choose the best weights (no rows if they would be fewer than 10).
    keep_empty_features : whether a column without observed values in `fit` is kept and imputed with 0; by default,
        `transform` drops it.
    random_state : None, an integer from 0 to 2**32 - 1, which makes all results reproducible (also of fits in several
        threads, which run one after another), or a numpy RandomState or Generator.
    device : device of the training, such as 'cpu' or 'cuda', or 'auto'. Predictions are always made on the CPU.
    verbose : whether `fit` reports its progress.

    Attributes
    ----------
    n_features_in_, feature_names_in_ : number and names of the columns in `fit` (names only if all are strings).
    empty_features_, constant_features_ : (columns,) bool. Missing values of a constant column are imputed with the
        constant.
    model_ : the trained model, None if no column varies; columns_ : the columns that are its variables, and scales.
    n_steps_, validation_loss_ : number of training steps and loss on the held-out rows (NaN without any).
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
        """Train on a table (rows, columns), NaN where a value is missing. `y` is ignored."""
        settings, seed = self._settings(), seed_from(self.random_state)
        table = read_table(X, type(self).__name__)
        columns = Columns.of(table.values)
        if columns.empty.any() and not self.keep_empty_features:
            named = ", ".join(table.named(int(place)) for place in np.flatnonzero(columns.empty))
            text = (
                f"columns without any value in fit: {named}. They will be dropped; keep_empty_features=True keeps them"
            )
            warnings.warn(text, UserWarning, stacklevel=2)
        rows = columns.standardised(table.values)
        rows = rows[~np.isnan(rows).all(1)]  # rows without observed values carry no information
        model, run = None, None
        if columns.varies.any():
            tensor = torch.from_numpy(rows.astype(np.float32))
            model, run = trained_model(tensor, settings, seed, quiet=not self.verbose)
        # Attributes are set last: an interrupted fit leaves the estimator as it was.
        self.n_features_in_ = table.values.shape[1]
        if table.names is not None:
            self.feature_names_in_ = np.array(table.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.columns_, self._seed = columns, seed
        self.empty_features_, self.constant_features_ = columns.empty, ~columns.varies & ~columns.empty
        self.model_, self.n_steps_ = model, run.step if run else 0
        self.validation_loss_ = float(run.best) if run and np.isfinite(run.best) else float("nan")
        return self

    def transform(self, X: Any) -> Any:
        """The table with every missing value imputed; observed values are returned unchanged.

        A DataFrame is returned for a DataFrame, otherwise an array; float32 if all of X is float32, otherwise float64
        (integer and boolean columns included).
        """
        fill = check_choice("fill", self.fill, FILLS)
        table = self._read(X)
        rows = filled(self.model_, self._rows(table), fill, stream(self._seed, "transform"))
        return table.like(self._completed(rows, table), self._kept())

    def sample(self, X: Any, n_samples: int = 1, random_state: Any = None) -> Floats:
        """Multiple imputations: samples of all missing values of each row, (n_samples, rows, columns) in float64.

        A row without observed values is a sample from the joint distribution. Without a `random_state`, the samples
        are determined by that of the Imputer.
        """
        count, table = check_count("n_samples", n_samples), self._read(X)
        generator = stream(self._seed if random_state is None else seed_from(random_state), "sample")
        rows = self._rows(table)
        draws = filled(self.model_, rows.repeat(count, 1), "sample", generator).view(count, *rows.shape)
        return np.stack([self._completed(draw, table) for draw in draws])

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """log p(observed values) of every row (rows,), in nats and in the units of the table; 0 for an empty row.

        Columns that were empty or constant in `fit` have no density and are left out.
        """
        table = self._read(X)
        if self.model_ is None:
            return np.zeros(len(table.values))
        rows = self._rows(table)
        scales: Floats = np.log(self.columns_.scale[self.columns_.varies])
        found: NDArray[np.float64] = log_density(self.model_, rows, self._seed).numpy()
        found -= (~rows.isnan().numpy() * scales).sum(1)
        return found

    def score(self, X: Any, y: Any = None) -> float:
        """The mean of `score_samples`."""
        return float(self.score_samples(X).mean())

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """The names of the columns that `transform` returns."""
        self._check_fitted()
        known = getattr(self, "feature_names_in_", None)
        kept: NDArray[np.object_] = names_in(input_features, known, self.n_features_in_)[self._kept()]
        return kept

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    # ---- between the table and the model ----

    def _settings(self) -> ImputerSettings:
        check_choice("fill", self.fill, FILLS)
        for name in ("keep_empty_features", "verbose"):
            check_value(name, getattr(self, name), bool)
        return ImputerSettings(**{field.name: getattr(self, field.name) for field in fields(ImputerSettings)})

    def _read(self, X: Any) -> Table:
        self._check_fitted()
        table = read_table(X, type(self).__name__)
        names = getattr(self, "feature_names_in_", None)
        warning = check_same_columns(table, self.n_features_in_, names, type(self).__name__)
        if warning is not None:
            warnings.warn(warning, UserWarning, stacklevel=3)
        return table

    def _rows(self, table: Table) -> Tensor:
        return torch.from_numpy(self.columns_.standardised(table.values))

    def _completed(self, rows: Tensor, table: Table) -> Floats:
        """The table with missing values from the rows of the model, without the columns that are dropped."""
        return self.columns_.restored(rows.numpy(), table.values)[:, self._kept()]

    def _kept(self) -> NDArray[np.bool_]:
        kept: NDArray[np.bool_] = ~self.empty_features_ | self.keep_empty_features
        return kept

    def _check_fitted(self) -> None:
        if not hasattr(self, "columns_"):
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments before "
                "using this estimator."
            )
