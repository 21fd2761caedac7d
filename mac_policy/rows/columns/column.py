"""One column of a table: what it holds, and its numbers in a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mac_policy.common.checks import check_choice, nearest_hint
from mac_policy.common.settings import Positive, Settings, choice
from mac_policy.rows.columns.caps import believable
from mac_policy.rows.columns.cells import Cells, Class, Name, plain

Kind = Literal["real", "integer", "categorical"]
KINDS: tuple[str, ...] = get_args(Kind)
Floats = NDArray[np.float64]

FURTHEST = 1e6  # standard deviations; encoded values are clipped there
LARGEST = np.finfo(np.float64).max
LARGEST_VALUE = 1 << 16  # bytes of a text
CONSTANT = 1e-12  # a column is constant if its range is below this share of its largest value
IDENTIFIERS = 50  # more classes than this must repeat: a text that is different in each row is no category


@dataclass(frozen=True)
class Column(Settings):
    """A variable of a table.

    kind: 'real'; 'integer', modelled as a real value that is rounded; or 'categorical', encoded as the place of its
    value in `classes`. location, scale: of encoded numbers, (value - location) / scale: mean and standard deviation of
    the observed values that are `believable`. low, high: the smallest and greatest observed number. varies:
    whether there are two or more different values; only such a column is a variable of a model. dtype, ordered: the
    type of the column in its table, by name, and whether pandas' categories are ordered. empty: whether no value was
    observed.
    """

    name: Name
    kind: Annotated[str, choice(KINDS)]
    dtype: str = "float64"
    classes: tuple[Any, ...] = ()
    ordered: bool = False
    location: float = 0.0
    scale: Positive = 1.0
    low: float = 0.0
    high: float = 0.0
    varies: bool = True
    empty: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_dtype(self.name, self.dtype)
        if not all(isinstance(each, (str, int, float)) for each in self.classes) or (
            len(set(self.classes)) < len(self.classes)
        ):
            raise ValueError(f"classes of the column {self.name!r} must be different texts, numbers or bools")
        if self.varies and self.is_categorical != (len(self.classes) > 1):
            raise ValueError(f"column {self.name!r} is {self.kind} and has {len(self.classes)} classes")

        if not self.is_categorical and not self.empty:
            self._check_numbers()

    def _check_numbers(self) -> None:
        """ValueError unless location and scale are a mean and a standard deviation of numbers from low to high."""
        wide, slack = self.high - self.low, 1e-6 * max(abs(self.low), abs(self.high))
        if not self.low <= self.high or not self.low - slack <= self.location <= self.high + slack:
            raise ValueError(
                f"column {self.name!r} must have low <= location <= high, got {self.low:g}, {self.location:g} and "
                f"{self.high:g}"
            )
        if self.varies and not (self.low < self.high and self.scale <= wide):
            raise ValueError(f"column {self.name!r} has the scale {self.scale:g} for a range of {wide:g}")

    @staticmethod
    def of(cells: Cells, kind: str | Sequence[Class] | None = None, find_integers: bool = True) -> Column:
        """The column of these cells. kind: declared; a list of classes; or None, found from the cells."""
        if kind is None or isinstance(kind, str):
            declared = cells.classes if kind in (None, "categorical") else None
        elif isinstance(kind, Iterable):
            declared = tuple(plain(each) for each in kind)
        else:
            raise ValueError(
                f"kind of the column {cells.name!r} must be one of {', '.join(KINDS)}, or a list of classes; "
                f"got {kind!r}"
            )
        found = "categorical" if declared is not None else _kind_of(cells, find_integers) if kind is None else kind
        check_choice(f"kind of the column {cells.name!r}", found, KINDS)
        return _categorical(cells, declared) if found == "categorical" else _number(cells, str(found))

    @property
    def is_categorical(self) -> bool:
        return self.kind == "categorical"

    @property
    def log_unit(self) -> float:
        """log of what one unit of the table's density is in encoded numbers; 0 where there are probabilities."""
        return float(np.log(self.scale)) if self.kind == "real" else 0.0

    @property
    def lattice(self) -> tuple[float, float]:
        """Distance and place of the whole numbers among encoded numbers; (0, 0) where there are none."""
        return (1 / self.scale, -self.location / self.scale) if self.kind == "integer" else (0.0, 0.0)

    def encoded(self, cells: Cells) -> Floats:
        """(R,) numbers as a model has them; NaN where a value is missing."""
        if self.is_categorical:
            return self._codes(cells)
        if not cells.are_numbers:
            row = int((~cells.missing).argmax())
            raise ValueError(f"row {row}, column {self.name!r} holds {cells.values[row]!r}: it is a column of numbers")
        with np.errstate(over="ignore"):
            halves = (cells.values / 2 - self.location / 2) / self.scale  # halves cannot overflow
        return np.clip(2 * np.clip(halves, -FURTHEST, FURTHEST), -FURTHEST, FURTHEST)

    def decoded(self, encoded: Floats) -> NDArray[Any]:
        """(R,) values of the table from encoded numbers: classes as objects, whole numbers of integer columns, in the
        precision of the column where that is a type of numpy. A category without any value in fit stays missing."""
        if self.is_categorical:
            codes = np.clip(np.rint(encoded), 0, len(self.classes) - 1).astype(np.int64)
            out = np.empty(len(codes), dtype=object)
            if not self.empty:
                out[:] = [self.classes[code] for code in codes]
            return out
        with np.errstate(over="ignore"):
            values = np.clip(encoded * self.scale + self.location, -LARGEST, LARGEST)
        return np.rint(values) if self.kind == "integer" else values

    def _codes(self, cells: Cells) -> Floats:
        place = {value: code for code, value in enumerate(self.classes)}
        codes = np.full(len(cells.values), np.nan)
        for row in np.flatnonzero(~cells.missing):
            value = cells.values[row]
            if value not in place:
                shown = ", ".join(map(repr, self.classes[:12])) + ", ..." * (len(self.classes) > 12)
                raise ValueError(
                    f"row {row}, column {self.name!r} has the class {_shown(value)}, which fit has not seen; its "
                    f"classes are {shown}{nearest_hint(value, map(str, self.classes))}"
                )
            codes[row] = place[value]
        return codes


def check_dtype(column: Name, dtype: str) -> None:
    """ValueError for a type of numpy whose values would take more memory than any column of a table does."""
    try:
        size = np.dtype(dtype).itemsize
    except (TypeError, ValueError, SyntaxError):  # a type of pandas
        return
    if size > LARGEST_VALUE:
        raise ValueError(f"column {column!r} has the type {dtype}, whose values have {size:,} bytes")


def _shown(value: Any) -> str:
    return repr(int(value)) if isinstance(value, float) and value.is_integer() else repr(plain(value))


def _kind_of(cells: Cells, find_integers: bool) -> Kind:
    if not cells.are_numbers:
        return "categorical"
    if cells.whole or _is_whole_type(cells.dtype):
        return "integer"
    observed = cells.values[~cells.missing]
    return "integer" if find_integers and len(observed) and bool((observed == np.rint(observed)).all()) else "real"


def _is_whole_type(dtype: str) -> bool:
    return dtype.lower().startswith(("int", "uint"))


def _categorical(cells: Cells, declared: Sequence[Class] | None) -> Column:
    distinct = cells.distinct()
    if cells.are_numbers and all(value.is_integer() for value in distinct):
        distinct = [int(value) for value in distinct]
    classes = tuple(distinct) if declared is None else tuple(declared)
    if len(set(classes)) < len(classes) or not all(isinstance(value, (str, int, float)) for value in classes):
        raise ValueError(
            f"classes of the column {cells.name!r} must be different texts, numbers or bools, got {list(classes)}"
        )
    observed = int((~cells.missing).sum())
    if declared is None and len(classes) > max(IDENTIFIERS, observed / 2):
        raise ValueError(
            f"column {cells.name!r} has {len(classes)} classes in {observed} rows, as an identifier has: drop the "
            "column, or declare its classes"
        )
    column = Column(
        cells.name, "categorical", cells.dtype, classes, cells.ordered, varies=len(classes) > 1 and bool(distinct),
        empty=not distinct,
    )  # fmt: skip
    column._codes(cells)  # refuses a class that is not declared
    return column


def _number(cells: Cells, kind: str) -> Column:
    if not cells.are_numbers:
        row = int((~cells.missing).argmax())
        raise ValueError(f"column {cells.name!r} is declared {kind}, but row {row} holds {cells.values[row]!r}")
    dtype = cells.dtype if kind == "integer" or not _is_whole_type(cells.dtype) else "float64"
    observed = cells.values[~np.isnan(cells.values)]
    if not len(observed):
        return Column(cells.name, kind, dtype, varies=False, empty=True)
    low, high = float(observed.min()), float(observed.max())
    least, most = believable(observed)
    usual = observed[(observed >= least) & (observed <= most)]
    if np.ptp(usual / 2) <= CONSTANT * np.abs(usual).max() / 2:  # halves: the range of any finite numbers is finite
        usual = observed
    largest = float(np.abs(usual).max())
    if not high / 2 - low / 2 > CONSTANT * largest / 2:  # halves, so that the range of any finite numbers is finite
        return Column(cells.name, kind, dtype, location=low, low=low, high=high, varies=False)
    shares = usual / largest  # the squares of shares cannot overflow
    location = float(shares.mean())
    spread = float(np.sqrt(((shares - location) ** 2).mean()))
    return Column(cells.name, kind, dtype, location=location * largest, scale=spread * largest, low=low, high=high)
