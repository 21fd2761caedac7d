"""The columns of a table, and the way between tables and the tensors of a model."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mac_policy.common.checks import check_choice, check_list, nearest_hint
from mac_policy.common.settings import Settings, choice, from_mapping
from mac_policy.core.heads import Categorical, GaussianMixture, Head, Mixed, RoundedMixture
from mac_policy.rows.columns.cells import Cells, Class, Name
from mac_policy.rows.columns.column import Column
from mac_policy.rows.columns.markers import suspected
from mac_policy.rows.columns.reading import ARRAY, form_of, read_table
from mac_policy.rows.columns.writing import FORMS, write_table


@dataclass(frozen=True)
class Columns:
    """The named columns of a table. Those that vary are the variables of a model, in their order.

    form: what the table was, 'array', 'mapping' or 'frame' (a pandas DataFrame); dtype: of an array.

    >>> import numpy as np
    >>> table = {"size": np.array([1.5, np.nan, 2.5]), "legs": np.array([4, 2, 4]), "name": ["cat", "hen", None]}
    >>> columns = Columns.of(table)
    >>> [(column.name, column.kind, column.classes) for column in columns.all]
    [('size', 'real', ()), ('legs', 'integer', ()), ('name', 'categorical', ('cat', 'hen'))]
    >>> values, missing = columns.encode(table)
    >>> columns.decode(values)["name"].tolist()
    ['cat', 'hen', 'cat']
    """

    all: tuple[Column, ...]
    form: str = ARRAY
    dtype: str = "float64"

    @staticmethod
    def of(
        table: Any,
        kinds: Mapping[Name, str | Sequence[Class]] | None = None,
        names: Sequence[Name] | None = None,
        find_integers: bool = True,
    ) -> Columns:
        """The columns of a table, as `read_table` reads it.

        kinds: 'real', 'integer', 'categorical' or a list of classes, for columns whose kind is not to be found from
        the data. Found are: 'categorical' for texts, bools and pandas' categories, 'integer' for types of whole numbers
        (and for floating-point columns of whole numbers, unless `find_integers` is False), otherwise 'real'.
        """
        cells = read_table(table, check_names(names))
        declared = kinds or {}
        if not isinstance(declared, Mapping):
            raise ValueError(
                f"kinds must be a mapping from columns to kinds, such as {{'age': 'integer'}}, got {kinds!r}"
            )
        if names is not None and list(names) != (own := [each.name for each in cells]):
            raise ValueError(f"names are those of an array's columns; the columns of this table are named {own}")
        for name in declared:
            _check_name(name, [each.name for each in cells])
        found = tuple(Column.of(each, declared.get(each.name), find_integers) for each in cells)
        for column, each in zip(found, cells, strict=True):
            is_declared = column.is_categorical and (each.name in declared or each.classes is not None)
            if not is_declared and (warning := suspected(each)):
                warnings.warn(warning, UserWarning, stacklevel=3)
        return Columns(found, form_of(table), _shared_type(cells))

    @property
    def names(self) -> list[Name]:
        return [column.name for column in self.all]

    @cached_property
    def variables(self) -> tuple[Column, ...]:
        """The columns that a model has as variables."""
        return tuple(column for column in self.all if column.varies)

    def column(self, name: Name) -> Column:
        """The column of this name; ValueError if there is none."""
        _check_name(name, self.names)
        return self.all[self.names.index(name)]

    def place(self, name: Name) -> int:
        """The number of a column's variable; ValueError if there is no such column or it does not vary."""
        _check_name(name, self.names)
        varying = [column.name for column in self.variables]
        if name not in varying:
            raise ValueError(f"column {name!r} has the same value in every row of fit: it is no variable")
        return varying.index(name)

    def read(self, table: Any, partial: bool = False) -> dict[Name, Cells]:
        """The cells of a table's columns by name. `partial`: a mapping or a DataFrame may lack columns."""
        names = self.names if form_of(table) == ARRAY else None
        cells = {each.name: each for each in read_table(table, names)}
        for name in cells:
            _check_name(name, self.names)
        lost = [name for name in self.names if name not in cells]
        if lost and not partial:
            raise ValueError(f"the table lacks the columns {lost}; it must have those of fit: {self.names}")
        return cells

    def encode(self, table: Any, partial: bool = False) -> tuple[Tensor, Tensor]:
        """Values (R, N) in float64, zero where missing, and the mask of missing values (R, N) of all variables.

        Numbers are standardised by the scale of fit; a category is the place of its class. ValueError for a class that
        fit has not seen, naming row, column and class.
        """
        return self.encode_cells(self.read(table, partial))

    def encode_cells(self, cells: Mapping[Name, Cells]) -> tuple[Tensor, Tensor]:
        """As `encode`, of cells that have been read."""
        rows = max((len(each.values) for each in cells.values()), default=0)
        unknown = np.full(rows, np.nan)
        encoded = {name: self.column(name).encoded(each) for name, each in cells.items()}
        listed = [encoded.get(column.name, unknown) for column in self.variables]
        values = torch.from_numpy(np.stack(listed, 1) if listed else np.empty((rows, 0)))
        missing = values.isnan()
        return values.masked_fill(missing, 0.0), missing

    def decode(self, values: Tensor, form: str | None = None, index: Any = None) -> Any:
        """A table from encoded values (R, N) of all variables, in the form and with the types of the table of fit, or
        in another `form`; `index`: of a DataFrame. A column that does not vary has its constant."""
        check_choice("form", self.form if form is None else form, FORMS)
        return write_table(self, self.decode_columns(values), form or self.form, index)

    def complete(self, table: Any, values: Tensor, copies: int = 1, form: str | None = None) -> Any:
        """The table with its missing values from encoded values (R * copies, N); observed values stay as they are.

        copies: how often each row is repeated, one after another. The columns have the types of fit, and the form is
        that of the table unless another `form` is named.
        """
        cells, decoded, observed = self.read(table, partial=True), self.decode_columns(values), {}
        for name, each in cells.items():
            observed[name] = ~each.missing.repeat(copies)
            decoded[name] = np.where(observed[name], each.values.repeat(copies), decoded[name])
        index = getattr(table, "index", None) if copies == 1 else None
        form = form_of(table) if form is None else check_choice("form", form, FORMS)
        return write_table(self, decoded, form, index, observed)

    def decode_columns(self, values: Tensor) -> dict[Name, NDArray[Any]]:
        """Each column (R,) by name: numbers in float64, classes as objects."""
        found = values.detach().cpu().double().numpy()
        place = {column.name: place for place, column in enumerate(self.variables)}
        constant = np.zeros(len(found))
        return {
            column.name: column.decoded(found[:, place[column.name]] if column.varies else constant)
            for column in self.all
        }

    def log_scales(self) -> Tensor:
        """log of the scale of each variable (N,), 0 for categories and whole numbers, which have probabilities: the
        density of a real value of the table is that of the encoded value divided by its scale."""
        return torch.tensor([c.log_unit for c in self.variables], dtype=torch.float64)

    def head(self, num_components: int = 10) -> Head:
        """A head for all variables: mixtures of Gaussians for numbers, rounded where they are whole, and a family for
        each number of classes."""
        sizes = [len(column.classes) if column.is_categorical else 0 for column in self.variables]
        kinds = sorted(set(sizes))
        heads = [Categorical(size) if size else self._numbers(num_components) for size in kinds]
        return heads[0] if len(heads) == 1 else Mixed(heads, [kinds.index(size) for size in sizes])

    def _numbers(self, num_components: int) -> Head:
        if all(column.kind != "integer" for column in self.variables):
            return GaussianMixture(num_components)
        lattices = [column.lattice for column in self.variables]
        widths, origins = zip(*lattices, strict=True)
        return RoundedMixture(num_components, widths, origins)

    def as_json(self) -> dict[str, Any]:
        """A description in plain JSON, from which `from_json` makes equal columns."""
        return {"form": self.form, "dtype": self.dtype, "columns": [asdict(column) for column in self.all]}

    @staticmethod
    def from_json(described: Mapping[str, Any]) -> Columns:
        """The inverse of `as_json`; ValueError for anything else."""
        return from_mapping(ColumnsRecord, described, "description of the columns").columns_of()


@dataclass(frozen=True)
class ColumnsRecord(Settings):
    """Columns in plain JSON."""

    columns: tuple[Column, ...]
    form: Annotated[str, choice(FORMS)] = ARRAY
    dtype: str = "float64"

    def __post_init__(self) -> None:
        super().__post_init__()
        names = [column.name for column in self.columns]
        if len(set(names)) < len(names):
            raise ValueError(f"columns must have different names, got {names}")

    def columns_of(self) -> Columns:
        return Columns(self.columns, self.form, self.dtype)


def check_names(names: Sequence[Name] | None) -> list[Name] | None:
    """The names of an array's columns as a list; None if there are none."""
    return None if names is None else check_list("names", names)


def _check_name(name: Name, names: Iterable[Name]) -> None:
    known = list(names)
    if name not in known:
        hint = nearest_hint(name, map(str, known))
        raise ValueError(f"there is no column {name!r}; the columns are {', '.join(map(repr, known))}{hint}")


def _shared_type(cells: Sequence[Cells]) -> str:
    types = {each.dtype for each in cells}
    if len(types) == 1:
        return types.pop()
    try:
        kinds = [np.dtype(each) for each in types]
    except TypeError:  # a type of pandas
        return "object"
    return str(np.result_type(*kinds)) if kinds and all(each.kind in "iuf" for each in kinds) else "object"
