"""A table of the user's own, in a file: `benchmark=table data.path=my.csv`."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mac_policy.common.arrays import read_npy
from mac_policy.common.checks import check_count
from mac_policy.common.reading import reading
from mac_policy.rows.columns import Columns
from mac_policy.rows.columns.cells import Name
from mac_policy.rows.sets.row_set import RowSet, files_sha256
from mac_policy.rows.sets.scaling import drop_constant
from mac_policy.rows.sets.uci import random_split

FEWEST = 20  # rows, of which two are test rows
ADVICE = (
    "The arms of this benchmark are densities of numbers: leave columns of texts out, or model the table by "
    "mac_policy.TableModel"
)
MISSING = ("", "na", "nan", "null", "none", "?")


def load_own(root: Any = None, *, path: str | Path, split: int = 0, download: bool = False) -> RowSet:
    """The complete rows of a csv or npy file of numbers as float32, in random split `split` of 80 / 10 / 10 %.

    Likelihoods are those of numbers: a column of texts raises a ValueError. Rows with missing values and columns with a
    single value are left out, which the note says.
    """
    check_count("split", split, 0)
    path = Path(path)
    _, values = read_numbers(path)
    complete = ~np.isnan(values).any(1)
    if complete.sum() < FEWEST:
        raise ValueError(f"{path} has {complete.sum()} rows without missing values: at least {FEWEST} are needed")
    (kept,), constant = drop_constant((values[complete],))
    train, valid, test = random_split(kept, split, path.name)
    dropped = int((~complete).sum())
    note = [f"split {split}", f"{dropped:,} rows with missing values left out" if dropped else "", constant]
    shape, digest = (train.shape[1],), files_sha256([path])
    return RowSet("table", train, valid, test, shape, None, str(path), digest, "; ".join(filter(None, note)))


def read_numbers(path: Path) -> tuple[list[Name], NDArray[np.float64]]:
    """Names and values (R, C) of the columns of a csv file, whose first line may name them, or of an npy file."""
    if not path.is_file():
        raise ValueError(f"data.path={path}: there is no such file")
    with reading(path, "table"):
        table = read_npy(path) if path.suffix == ".npy" else _read_csv(path)
        columns = Columns.of(table, find_integers=False)
    if texts := [column.name for column in columns.all if column.is_categorical]:
        raise ValueError(f"{path}: the columns {texts} do not hold numbers. {ADVICE}")
    cells = columns.read(table)
    return columns.names, np.stack([cells[name].values for name in columns.names], 1)


def _read_csv(path: Path) -> dict[str, list[float | None]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = [line for line in csv.reader(file) if line]
    if len(lines) < 2:
        raise ValueError(f"{path} has {len(lines)} lines: a line of names and rows are expected")
    header = lines[0] if any(_number(cell) is None for cell in lines[0] if not _is_missing(cell)) else None
    names = [f"x{place}" for place in range(len(lines[0]))] if header is None else [name.strip() for name in header]
    rows = lines if header is None else lines[1:]
    for number, row in enumerate(rows, 1 if header is None else 2):
        if len(row) != len(names):
            raise ValueError(f"{path} line {number} has {len(row)} cells, the first line {len(names)}")
    if len(set(names)) < len(names):
        raise ValueError(f"{path}: each column needs a name of its own, got {names}")
    if len(names) == 1 and (found := [sign for sign in (";", "\t", "|") if sign in names[0]]):
        raise ValueError(f"{path} has cells that are separated by {found[0]!r}: separate them by commas")
    start = 1 if header is None else 2
    return {name: _column(path, name, [row[place] for row in rows], start) for place, name in enumerate(names)}


def _column(path: Path, name: str, texts: list[str], start: int) -> list[float | None]:
    """Numbers, None where a cell is missing; `start` is the line of the first cell. ValueError for other texts."""
    numbers = [None if _is_missing(text) else _number(text) for text in texts]
    for line, (text, number) in enumerate(zip(texts, numbers, strict=True), start):
        if number is None and not _is_missing(text):
            raise ValueError(
                f"{path} line {line}, column {name!r} holds {text.strip()!r}, which is no number. {ADVICE}"
            )
    return numbers


def _is_missing(text: str) -> bool:
    return text.strip().lower() in MISSING


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
