"""The five tables of masked autoregressive flows and ACE: power, gas, hepmass, miniboone, bsds.

The files are published at zenodo.org/record/1161203. Columns, noise, order, splits and normalisation follow
Papamakarios et al. (2017), as in Strauss and Oliva (2021) and in the MAC paper, so that likelihoods are comparable.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mac_policy.common.arrays import read_npy
from mac_policy.common.checks import check_choice
from mac_policy.common.download import Download
from mac_policy.common.hdf5 import open_hdf5
from mac_policy.common.reading import reading
from mac_policy.rows.sets.formats import frame_columns
from mac_policy.rows.sets.published import Published
from mac_policy.rows.sets.row_set import RowSet, files_sha256
from mac_policy.rows.sets.scaling import Scaling, drop_constant

Floats = NDArray[np.float64]


class Splits(NamedTuple):
    """Train, validation and test rows (S, N)."""

    train: Floats
    valid: Floats
    test: Floats


class Table(NamedTuple):
    """One table: its files below data/ of the archive, its size after preprocessing, and its preprocessing."""

    files: tuple[str, ...]
    columns: int
    rows: tuple[int, int, int]
    prepare: Callable[[Path], Splits]


def tail_splits(rows: Floats) -> Splits:
    """Split rows: the last tenth is the test split, the last tenth of the remaining rows the validation split."""
    rest, test = last_tenth(rows)
    return Splits(*last_tenth(rest), test)


def last_tenth(rows: Floats) -> tuple[Floats, Floats]:
    """Split off the last tenth: (the remaining rows, the last tenth)."""
    kept = len(rows) - int(0.1 * len(rows))
    return rows[:kept], rows[kept:]


def normalised_tail_splits(rows: Floats) -> Splits:
    """`tail_splits`, standardised by the training and validation rows. Constant columns are only centred."""
    splits = tail_splits(rows)
    scaling = Scaling.of(np.vstack(splits[:2]))
    return Splits(*(scaling(part) for part in splits))


def prepare_power(folder: Path) -> Splits:
    """Drop two columns, shuffle the rows, and dequantise discrete readings with uniform noise of their step size."""
    data = load_npy(folder / "power" / "data.npy", columns=8)
    rng = np.random.RandomState(42)
    rng.shuffle(data)
    data = np.delete(np.delete(data, 3, axis=1), 1, axis=1)
    rows = len(data)
    voltage, gap, meters = 0.01 * rng.rand(rows, 1), 0.001 * rng.rand(rows, 1), rng.rand(rows, 3)
    return normalised_tail_splits(data + np.hstack((gap, voltage, meters, np.zeros((rows, 1)))))


def prepare_gas(folder: Path) -> Splits:
    """Keep the sensor columns, drop one of each pair with a correlation above 0.98, and standardise over all rows."""
    columns = frame_columns(folder / "gas" / "ethylene_CO.pickle")
    for name in ("Meth", "Eth", "Time"):
        if name not in columns:
            raise ValueError(f"{folder / 'gas'} has no column {name!r}; it has {', '.join(map(str, columns))}")
        del columns[name]
    data = np.column_stack([np.asarray(values, np.float64) for values in columns.values()])
    data = drop_correlated(finite(data, folder / "gas"), 0.98)
    return tail_splits(Scaling.of(data, ddof=1)(data))


def drop_correlated(data: Floats, limit: float) -> Floats:
    """Drop the first column whose correlation with another column exceeds `limit`, until no pair exceeds it."""
    while True:
        with np.errstate(invalid="ignore", divide="ignore"):
            close = np.atleast_2d(np.corrcoef(data, rowvar=False)) > limit
        np.fill_diagonal(close, False)
        if not close.any():
            return data
        data = np.delete(data, int(close.any(1).argmax()), axis=1)


def prepare_hepmass(folder: Path) -> Splits:
    """Keep the signal rows, standardise, and drop columns whose smallest value occurs more than five times."""
    train, test = (load_csv(folder / "hepmass" / name) for name in ("1000_train.csv", "1000_test.csv"))
    train, test = train[train[:, 0] == 1, 1:], test[test[:, 0] == 1, 1:]
    test = test[:, : train.shape[1]]  # the test file has an additional column
    scaling = Scaling.of(train, ddof=1)
    train, test = scaling(train), scaling(test)
    kept = (train == train.min(0)).sum(0) <= 5
    return Splits(*last_tenth(train[:, kept]), test[:, kept])


def prepare_miniboone(folder: Path) -> Splits:
    return normalised_tail_splits(load_npy(folder / "miniboone" / "data.npy"))


def prepare_bsds(folder: Path) -> Splits:
    """Patches of grayscale images, as they are preprocessed in the published file."""
    path = folder / "BSDS300" / "BSDS300.hdf5"
    with open_hdf5(path, "HDF5 file with train, validation and test") as file:
        parts = [np.asarray(file[split], np.float64) for split in ("train", "validation", "test")]
    return Splits(*(finite(rows, path) for rows in parts))


TABLES = {
    "power": Table(("power/data.npy",), 6, (1_659_917, 184_435, 204_928), prepare_power),
    "gas": Table(("gas/ethylene_CO.pickle",), 8, (852_174, 94_685, 105_206), prepare_gas),
    "hepmass": Table(
        ("hepmass/1000_train.csv", "hepmass/1000_test.csv"), 21, (315_123, 35_013, 174_987), prepare_hepmass
    ),
    "miniboone": Table(("miniboone/data.npy",), 43, (29_556, 3_284, 3_648), prepare_miniboone),
    "bsds": Table(("BSDS300/BSDS300.hdf5",), 63, (1_000_000, 50_000, 250_000), prepare_bsds),
}


ARCHIVE = Download(
    "https://zenodo.org/record/1161203/files/data.tar.gz",
    "data.tar.gz",
    "md5:9b9c9b0375315ad270eba4ce80c093ab",
    members=tuple(file for table in TABLES.values() for file in table.files),
    prefix="data/",
)


def published_table(name: str) -> Published:
    files = TABLES[name].files
    return Published(
        name,
        files=files,
        markers=files,
        aliases=("maf", "maf/data", "data"),
        downloads=(ARCHIVE,),
        home="maf",
    )


def load_table(
    name: str,
    root: str | Path | None = None,
    *,
    download: bool = False,
    verify: bool = True,
) -> RowSet:
    """Load one of the five tables as float32. `verify=False` skips the check of the numbers of rows and columns."""
    table = TABLES[check_choice("table", name, TABLES)]
    folder = published_table(name).locate(root, download=download)
    splits = table.prepare(folder)
    found = (splits.train.shape[1], tuple(len(rows) for rows in splits))
    if verify and found != (table.columns, table.rows):
        raise ValueError(
            f"{name} in {folder} has {found[0]} columns and {found[1]} rows after preprocessing, "
            f"expected {table.columns} and {table.rows}: it is truncated or another file"
        )
    (train, valid, test), note = drop_constant(tuple(rows.astype(np.float32) for rows in splits))
    digest = files_sha256([folder / file for file in table.files])
    return RowSet(name, train, valid, test, (train.shape[1],), None, str(folder), digest, note)


def finite(rows: Floats, path: Path) -> Floats:
    """Return the rows. A ValueError names the first value that is not finite."""
    bad = ~np.isfinite(rows)
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        raise ValueError(f"{path}: row {row}, column {column} is {rows[row, column]}, not a finite number")
    return rows


def load_npy(path: Path, columns: int | None = None) -> Floats:
    data = read_npy(path)
    if data.ndim != 2 or (columns is not None and data.shape[1] != columns):
        raise ValueError(f"{path} has an array of shape {data.shape}, expected rows of {columns or 'equal'} columns")
    with reading(path, "array of numbers"):
        numbers = data.astype(np.float64)
    return finite(numbers, path)


def load_csv(path: Path) -> Floats:
    """Read a csv file with one header line. A trailing comma does not add a column."""
    with reading(path, "table of numbers"):
        with path.open() as file:
            fields = [next(file), next(file)][1].rstrip().rstrip(",").count(",") + 1
        data = np.loadtxt(path, np.float64, delimiter=",", skiprows=1, ndmin=2, usecols=range(fields))
    return finite(data, path)
