"""The benchmark data sets by name: their rows and, for labelled images, their classes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mac_policy.common.checks import check_choice
from mac_policy.common.reading import reading
from mac_policy.rows.sets import digits, images
from mac_policy.rows.sets.folders import FOLDERS, load_folder
from mac_policy.rows.sets.formats import read_pickle
from mac_policy.rows.sets.own import load_own
from mac_policy.rows.sets.published import sole_file
from mac_policy.rows.sets.row_set import RowSet, hold_out
from mac_policy.rows.sets.tables import TABLES, load_table
from mac_policy.rows.sets.text8 import load_text8
from mac_policy.rows.sets.uci import UCI_SHAPES, load_uci

SETS: dict[str, Callable[..., RowSet]] = {
    "text8": load_text8,
    "mnist": digits.load_mnist,
    "fashion-mnist": digits.load_fashion_mnist,
    "binarized_mnist": digits.load_binarized_mnist,
    "cifar10": images.load_cifar10,
    "imagenet32": images.load_imagenet32,
    **{name: partial(load_folder, name) for name in FOLDERS},
    **{name: partial(load_table, name) for name in TABLES},
    **{name: partial(load_uci, name) for name in UCI_SHAPES},
    "table": load_own,
}
RANDOM_SPLITS = (*UCI_SHAPES, "table")  # data sets with the option `split`, the number of a random split


def load_rows(
    name: str,
    root: str | Path | None = None,
    *,
    download: bool = False,
    **options: Any,
) -> RowSet:
    """Load a benchmark data set. root: the folder that is searched instead of $MAC_DATA and the cache.

    options: chunk (text8): characters per row; split (UCI tables, table): number of the random split; path (table): the
    csv or npy file.

    >>> load_rows("text8", chunk=64).shape  # doctest: +SKIP
    (64,)
    """
    load = SETS[check_choice("data set", name, SETS)]
    taken = {"text8": ("chunk",), "table": ("path", "split")}.get(name, ("split",) if name in RANDOM_SPLITS else ())
    for option in options:
        if option not in taken:
            raise ValueError(f"{name} takes no option {option!r}; it takes {', '.join(taken) or 'none'}")
    if name == "table" and "path" not in options:
        raise ValueError("data.path=... is missing: the csv or npy file of the table")
    return load(root, download=download, **options)


LABELLED = ("mnist", "fashion-mnist", "cifar10")
NUM_CLASSES = 10  # the same for all labelled sets


class Labels(NamedTuple):
    """The class 0..9 of each row, for the three splits of a `RowSet`."""

    train: NDArray[np.uint8]  # (S,)
    valid: NDArray[np.uint8]
    test: NDArray[np.uint8]


def load_labels(rows: RowSet) -> Labels:
    """Load the labels of `rows` from the folder of its images.

    >>> from mac_policy.rows.sets.registry import load_labels, load_rows
    >>> load_labels(load_rows("mnist")).test[:3]  # doctest: +SKIP
    array([7, 2, 1], dtype=uint8)
    """
    check_choice("data set with classes", rows.name, LABELLED)
    folder = Path(rows.location)
    read, share = (_cifar10, images.HELD_OUT) if rows.name == "cifar10" else (_idx, digits.HELD_OUT)
    whole, test = read(folder)
    train, valid = hold_out(whole, share)
    found = Labels(np.asarray(train), np.asarray(valid), test)
    for split, labels in found._asdict().items():
        if len(labels) < (count := len(getattr(rows, split))):
            raise ValueError(f"{folder} has {len(labels):,} labels for {count:,} {split} images")
        if labels.max(initial=0) >= NUM_CLASSES:
            raise ValueError(f"{folder} has labels above {NUM_CLASSES - 1} in {split}")
    counts = (len(rows.train), len(rows.valid), len(rows.test))  # a limited split has the first rows only
    return Labels(*(labels[:count] for labels, count in zip(found, counts, strict=True)))


def _idx(folder: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    found = []
    for name, count in digits.COUNTS.items():
        file = name.replace("images-idx3", "labels-idx1")
        path = sole_file(folder, f"{file}.gz", file)
        if path is None:
            raise ValueError(f"{folder} has no {file}[.gz]: it is published beside the images, and belongs there")
        found.append(digits.read_idx(path, (count,))[:, 0])
    return found[0], found[1]


def _cifar10(folder: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    suffix = ".bin" if next(folder.glob("data_batch_*.bin"), None) is not None else ""
    paths = [folder / f"data_batch_{i + 1}{suffix}" for i in range(images.BATCHES)]
    batches = [_cifar10_batch(path) for path in paths if path.is_file()]
    return np.concatenate(batches), _cifar10_batch(folder / f"test_batch{suffix}")


def _cifar10_batch(path: Path) -> NDArray[np.uint8]:
    if path.suffix == ".bin":
        return np.array(images.read_cifar_records(path)[:, 0])
    content = read_pickle(path)
    found = content.get("labels") if isinstance(content, dict) else None
    with reading(path, "batch with labels 0..9"):
        labels = np.asarray(found)
        if labels.ndim != 1 or labels.dtype.kind not in "iu" or labels.min(initial=0) < 0 or labels.max(initial=0) > 9:
            raise ValueError(f"labels are {labels.dtype} of shape {labels.shape}")
        return labels.astype(np.uint8)
