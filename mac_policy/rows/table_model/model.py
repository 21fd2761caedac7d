"""TableModel: the any-order engine for a table, from an array to a saved model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mac_policy.common import files
from mac_policy.common.checks import check_count, check_mapping
from mac_policy.common.files import CheckpointError
from mac_policy.common.folders import (
    CONFIG,
    SCHEMA,
    WEIGHTS,
    Config,
    largest_model,
    limited,
    read_config,
    read_weights,
)
from mac_policy.common.provenance import versions, write_json
from mac_policy.common.settings import Natural, from_mapping
from mac_policy.core import AnyOrderModel, Factorization
from mac_policy.core.factorization import SharedOrder
from mac_policy.core.heads import Mixed
from mac_policy.rows.columns import Columns
from mac_policy.rows.columns.cells import Cells, Class, Name, plain
from mac_policy.rows.columns.columns import ColumnsRecord
from mac_policy.rows.imputer.training import check_threads, threads, trained_model
from mac_policy.rows.table_model.answers import CategoryConditional, NumberConditional, column_conditional
from mac_policy.rows.table_model.restoring import restored
from mac_policy.rows.table_model.settings import TableSettings
from mac_policy.training.streams import stream

ROWS = 4096  # rows that are answered at once
FORMAT = 2  # of a stored model: 1 had other logits of classes


@dataclass(frozen=True)
class TableConfig(Config):
    """config.json of a TableModel."""

    columns: ColumnsRecord
    settings: TableSettings
    training: Mapping[str, Any]
    format: Natural = 1
    random_state: Natural = 0
    kinds: tuple[Any, ...] | None = None
    """Pairs of a column's name and its declared kind or classes."""
    names: tuple[Any, ...] | None = None
    versions: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        for pair in self.kinds or ():
            if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not isinstance(pair[0], (str, int)):
                raise ValueError(f"kinds must hold pairs of a column's name and its kind, got {pair!r}")


class TableModel:
    """An any-order model of a table's rows: p(any columns | any other columns).

    A table is a numpy array, a dictionary of columns or a pandas DataFrame, with numbers and categories (texts, bools,
    pandas' categories). None and NaN are missing values: they may be anywhere, in training as in queries.

    >>> import numpy as np
    >>> from mac_policy import TableModel
    >>> size = np.random.default_rng(0).normal(100, 20, 500)
    >>> table = {"size": size, "price": 3 * size, "garden": np.where(size > 100, "yes", "no")}
    >>> model = TableModel(steps=100).fit(table)
    >>> model.log_prob(table).shape  # log p(size, price, garden) of every row
    (500,)
    >>> model.log_prob(table, query=["garden"], given=["price"]).shape
    (500,)
    >>> sorted(model.sample({"garden": "yes"}, n_samples=3))
    ['garden', 'price', 'size']
    >>> model.conditionals({"price": 330.0})["garden"].probabilities.shape
    (1, 2)

    kinds: 'real', 'integer', 'categorical' or a list of classes, for columns whose kind is not to be found from the
    data (`Columns.of`); names: of an array's columns; random_state: seed of all random numbers; n_jobs: threads of
    `fit`, -1 for all processors, None for one; verbose: whether `fit` reports its progress; settings: those of
    `TableSettings`.
    """

    columns: Columns
    model: AnyOrderModel
    factorization: Factorization
    training: dict[str, Any]
    """Rows and steps of `fit`, the step of the best weights, and their validation loss: a negative log-likelihood in
    nats for each column that is asked for, of standardised numbers."""

    def __init__(
        self,
        *,
        kinds: Mapping[Name, str | Sequence[Class]] | None = None,
        names: Sequence[Name] | None = None,
        random_state: int = 0,
        n_jobs: int | None = None,
        verbose: bool = False,
        **settings: Any,
    ) -> None:
        if kinds is not None:
            check_mapping("kinds", kinds)
        self.kinds, self.names, self.verbose = kinds, names, verbose
        self.n_jobs = check_threads(n_jobs)
        self.random_state = check_count("random_state", random_state, 0)
        self.settings = from_mapping(TableSettings, settings, "settings of a TableModel")

    def fit(self, table: Any) -> TableModel:
        """Find the columns, and train on the observed values of the rows."""
        columns = Columns.of(table, self.kinds, self.names)
        values, missing = columns.encode(table)
        if not columns.variables:
            raise ValueError(
                f"no column of the table has two different values in its {len(values)} rows: there is nothing to model"
            )
        rows = values.masked_fill(missing, torch.nan)[~missing.all(1)]  # rows without values carry no information
        if len(rows) < 2:
            raise ValueError(f"the table has {len(rows)} rows with values: fit needs at least two")
        with threads(self.n_jobs):
            trained, run = trained_model(rows, columns, self.settings, self.random_state, quiet=not self.verbose)
        self.columns, self.model, self.factorization = columns, trained.model, trained.factorization
        losses = [(row["validation_loss"], int(row["step"])) for row in run.rows if "validation_loss" in row]
        loss, best = min(losses, default=(None, run.step))
        self.training = {"rows": len(rows), "steps": run.step, "validation_loss": loss, "best_step": best}
        return self

    # ---- queries ----

    @torch.no_grad()
    def log_prob(
        self,
        table: Any,
        *,
        query: Sequence[Name] | None = None,
        given: Sequence[Name] = (),
        orders: int = 1,
    ) -> NDArray[np.float64]:
        """log p(query | given) of every row (R,), in nats and in the units of the table.

        query, given: names of columns; by default the query is all that is not given. Missing values are left out of
        both, row by row; a named column that the table lacks altogether is an error. Numbers have a density, categories
        and whole numbers a probability; columns that did not vary in `fit` have no density and are left out. orders:
        random orders, the same ones for all rows, whose densities are averaged, with factorization='uniform'.
        """
        self._check_fitted()
        laws = self._laws(check_count("orders", orders))
        cells = self.columns.read(table, partial=True)
        values, missing = self.columns.encode_cells(cells)
        known = self._mask("given", given, cells)
        asked = ~known if query is None else self._mask("query", query, cells)
        parts = list(zip(values.split(ROWS), missing.split(ROWS), strict=True))
        found = [
            torch.cat([self.model.log_prob(x, query=asked & ~h, given=known & ~h, factorization=law) for x, h in parts])
            for law in laws
        ]
        units = ((asked & ~missing) * self.columns.log_scales()).sum(1)
        return np.asarray((torch.stack(found).logsumexp(0) - math.log(len(found)) - units).numpy())

    def sample(self, known: Any = None, n_samples: int = 1, *, random_state: int | None = None) -> Any:
        """Rows with all that is not known drawn from p(the rest | what is known of the row).

        known: a table that may lack columns and values, such as {"size": 80}; None knows nothing. Each of its rows is
        returned `n_samples` times, its samples one after another, in the form of the table of `fit`; known values stay
        as they are.
        """
        count = check_count("n_samples", n_samples)
        seed = self.random_state if random_state is None else check_count("random_state", random_state, 0)
        known = self._nothing() if _is_nothing(known) else known
        values, missing = self._encoded(known)
        generator = stream(seed, "sample")
        x, hole = (part.repeat_interleave(count, 0) for part in (values, missing))
        drawn = [
            self.model.sample(part, given=~unknown, factorization=self.factorization, generator=generator)
            for part, unknown in zip(x.split(ROWS), hole.split(ROWS), strict=True)
        ]
        return self.columns.complete(known, torch.cat(drawn), count, self.columns.form)

    @torch.no_grad()
    def conditionals(self, known: Any = None) -> dict[Name, NumberConditional | CategoryConditional]:
        """p(column | what is known of the row), for every column that is unknown in a row, as distributions over rows.

        known: as in `sample`. In rows that know the column, its distribution is not defined: all numbers are NaN, and
        the most probable class is None.
        """
        values, missing = self._encoded(self._nothing() if _is_nothing(known) else known)
        parts = zip(values.split(ROWS), missing.split(ROWS), strict=True)
        params = torch.cat(
            [self.model.conditional_params(x, evidence=~hole, factorization=self.factorization) for x, hole in parts]
        )
        head = self.model.head
        found = {}
        for place, column in enumerate(self.columns.variables):
            if bool(missing[:, place].any()):
                own = head.head_of(place) if isinstance(head, Mixed) else head
                numbers = params[:, place, : own.num_params].masked_fill(~missing[:, place, None], torch.nan)
                conditional = own(numbers, variables=torch.tensor(place))
                found[column.name] = column_conditional(column, conditional)
        return found

    # ---- files ----

    def save(self, folder: str | Path) -> Path:
        """Write config.json and model.safetensors; `load` needs neither the table nor pickle."""
        self._check_fitted()
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        config = {
            "schema": SCHEMA,
            "format": FORMAT,
            "columns": self.columns.as_json(),
            "settings": asdict(self.settings),
            "random_state": self.random_state,
            "kinds": None if self.kinds is None else [[name, _plain_kind(kind)] for name, kind in self.kinds.items()],
            "names": None if self.names is None else list(self.names),
            "training": self.training,
            "versions": versions(),
        }
        files.write_tensors(folder / WEIGHTS, self.model.state_dict())
        write_json(folder / CONFIG, config)
        return folder

    @staticmethod
    def load(folder: str | Path) -> TableModel:
        """A saved model. CheckpointError names the file that cannot be used."""
        folder = Path(folder)
        config, _ = read_config(folder, "the folder of a TableModel", TableConfig)
        kinds = None if config.kinds is None else dict(map(tuple, config.kinds))
        found = TableModel(kinds=kinds, names=config.names, random_state=config.random_state)
        found.settings, found.training = config.settings, dict(config.training)
        if config.format != FORMAT and any(column.kind == "categorical" for column in config.columns.columns):
            raise CheckpointError(
                f"{folder / CONFIG}: this model of categories was stored in format {config.format} and this version of "
                f"mac_policy reads format {FORMAT}: fit it again"
            )
        try:
            found.columns = config.columns.columns_of()
            found.factorization = found.settings.law(len(found.columns.variables))
        except ValueError as error:
            raise CheckpointError(f"{folder / CONFIG}: {error}") from error
        found.model = _with_weights(found, folder)
        return found

    # ---- parts ----

    def _encoded(self, table: Any) -> tuple[Tensor, Tensor]:
        self._check_fitted()
        return self.columns.encode(table, partial=True)

    def _laws(self, orders: int) -> list[Factorization]:
        """The paths of a likelihood: the canonical one, or random ones."""
        if not self.factorization.deterministic:
            generator, n = stream(self.random_state, "paths"), len(self.columns.variables)
            return [SharedOrder(torch.randperm(n, generator=generator)) for _ in range(orders)]
        if orders > 1:
            raise ValueError(
                f"orders={orders} averages over random orders: factorization={self.settings.factorization!r} answers "
                "along one canonical order, use factorization='uniform' or orders=1"
            )
        return [self.factorization]

    def _nothing(self) -> dict[Name, list[None]]:
        self._check_fitted()
        return {self.columns.variables[0].name: [None]}

    def _mask(self, what: str, names: Sequence[Name], cells: Mapping[Name, Cells]) -> Tensor:
        """(N,) bool of the variables with these names, which the table must have. Constant columns have none."""
        if isinstance(names, (str, int)):
            raise ValueError(f"{what} must be a list of columns, got {names!r}; write {what}=[{names!r}]")
        mask = torch.zeros(len(self.columns.variables), dtype=torch.bool)
        for name in names:
            column = self.columns.column(name)
            if name not in cells:
                raise ValueError(f"{what} names the column {name!r}, which the table lacks; it has {list(cells)}")
            if column.varies:
                mask[self.columns.place(name)] = True
        return mask

    def _check_fitted(self) -> None:
        if not hasattr(self, "model"):
            raise ValueError("this TableModel is not trained: call fit(table) first, or TableModel.load(folder)")


def _plain_kind(kind: str | Sequence[Class]) -> str | list[Any]:
    """A declared kind, or its classes as Python's own types."""
    return kind if isinstance(kind, str) else [plain(each) for each in kind]


def _is_nothing(known: Any) -> bool:
    """Whether a table of what is known says nothing, so that it has no rows, either."""
    return known is None or (isinstance(known, Mapping) and not known)


def _with_weights(model: TableModel, folder: Path) -> AnyOrderModel:
    path = folder / WEIGHTS
    weights = read_weights(path)
    try:
        with torch.random.fork_rng(), limited(largest_model(path), "the model of this table, by its weights,"):
            return restored(model.columns, model.settings, weights, path)
    except CheckpointError:
        raise
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise CheckpointError(f"{path} does not fit its {CONFIG}: {error}") from error
