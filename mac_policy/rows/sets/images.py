"""Colour images of 32 x 32 pixels: CIFAR-10 and ImageNet32, read from their published files.

A row is one image (3, 32, 32), channels first as in the files, with values 0..255.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mac_policy.common.download import Download
from mac_policy.rows.sets.formats import mapped_member, read_pickle
from mac_policy.rows.sets.published import Published
from mac_policy.rows.sets.row_set import JoinedRows, RowSet, files_sha256, hold_out

SHAPE = (3, 32, 32)
PIXELS = 3072
IMAGES_A_BATCH = 10_000  # CIFAR-10
BATCH_BYTES = IMAGES_A_BATCH * (1 + PIXELS)
BATCHES = 5
CIFAR10 = Published(
    "cifar10",
    files=("data_batch_1.bin ... data_batch_5.bin and test_batch.bin", "or the python batches data_batch_1 ..."),
    markers=("data_batch_*", "test_batch*"),
    aliases=("cifar-10-batches-bin", "cifar-10-batches-py"),
    downloads=(
        Download(
            "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            "cifar-10-binary.tar.gz",
            "md5:c32a1d4ab5d03f1284b67883e8d87530",
            170_052_171,
            (*(f"data_batch_{i + 1}.bin" for i in range(BATCHES)), "test_batch.bin"),
            prefix="cifar-10-batches-bin/",
        ),
    ),
)
IMAGENET32 = Published(
    "imagenet32",
    files=("train_data_batch_1.npz ... train_data_batch_10.npz and val_data.npz (with or without .npz)",),
    markers=("train_data_batch_*", "val_data*"),
    aliases=("Imagenet32_train_npz", "Imagenet32"),
    downloads=(
        Download(
            "https://image-net.org/data/downsample/Imagenet32_train_npz.zip",
            "Imagenet32_train_npz.zip",
            members=tuple(f"train_data_batch_{i + 1}.npz" for i in range(10)),
        ),
        Download(
            "https://image-net.org/data/downsample/Imagenet32_val_npz.zip",
            "Imagenet32_val_npz.zip",
            members=("val_data.npz",),
        ),
    ),
)
IMAGENET_TRAIN, IMAGENET_TEST = 1_281_167, 50_000
HELD_OUT = 0.02  # share of the training images held out for validation: neither set has a published validation split


def load_cifar10(root: str | Path | None = None, *, download: bool = False) -> RowSet:
    """CIFAR-10 from its binary or python batches. Fewer than five training batches are accepted and noted.

    The last 2% of the training images are held out for validation.
    """
    folder = CIFAR10.locate(root, download=download)
    binary = bool(list(folder.glob("data_batch_*.bin")))
    suffix = ".bin" if binary else ""
    paths = batch_files(folder, "data_batch_", BATCHES, (suffix,))
    test_path = folder / f"test_batch{suffix}"
    if not test_path.is_file():
        raise ValueError(f"{folder} has {paths[0].name} but no {test_path.name}: both must be of one form")
    read = read_cifar_binary if binary else partial(read_batch, images=IMAGES_A_BATCH)
    train, valid = hold_out(JoinedRows([read(path) for path in paths]), HELD_OUT)
    note = "" if len(paths) == BATCHES else f"{len(paths)} of {BATCHES} training batches"
    digest = files_sha256([*paths, test_path])
    return RowSet("cifar10", train, valid, read(test_path), SHAPE, 256, str(folder), digest, note)


def batch_files(folder: Path, stem: str, count: int, suffixes: tuple[str, ...]) -> list[Path]:
    """The training batches of a folder, sorted by number 1..count. At least one batch, and one file for each number."""
    expected = " ... ".join(f"{stem}{number}{suffixes[0]}" for number in (1, count))
    found: dict[int, Path] = {}
    for path in sorted(folder.glob(f"{stem}*")):
        named = re.fullmatch(rf"{stem}([1-9]\d*)", path.name.removesuffix(path.suffix))
        if path.suffix not in suffixes:
            continue
        if named is None or int(named[1]) > count:
            raise ValueError(f"{path} is no training batch: expected {expected}")
        if int(named[1]) in found:
            other = found[int(named[1])].name
            raise ValueError(f"{folder} has both {other} and {path.name}: keep one of them, or its images count twice")
        found[int(named[1])] = path
    if not found:
        raise ValueError(f"{folder} has no training batch, expected {expected}")
    return [found[number] for number in sorted(found)]


def read_cifar_binary(path: Path) -> NDArray[np.uint8]:
    """Memory-map the images (10000, 3072) of a binary batch."""
    return read_cifar_records(path)[:, 1:]


def read_cifar_records(path: Path) -> NDArray[np.uint8]:
    """Memory-map the records (10000, 1 + 3072) of a binary batch, each one label byte and 3072 image bytes."""
    found = path.stat().st_size
    if found != BATCH_BYTES:
        raise ValueError(
            f"{path} has {found:,} bytes, expected {BATCH_BYTES:,} ({IMAGES_A_BATCH:,} images of 1 + {PIXELS} bytes)"
        )
    records: NDArray[np.uint8] = np.memmap(path, np.uint8, mode="r", shape=(IMAGES_A_BATCH, 1 + PIXELS))
    if records[:, 0].max() > 9:
        raise ValueError(f"{path} is no CIFAR-10 batch: it has labels above 9")
    return records


def read_batch(path: Path, images: int | None = None) -> NDArray[np.uint8]:
    """Read the images (images, 3072) of a batch, which is an npz file or a pickle."""
    content = {"data": mapped_member(path, "data")} if path.suffix == ".npz" else read_pickle(path)
    data = content.get("data") if isinstance(content, dict) else None
    wanted = f"uint8 'data' of shape ({images or 'images'}, {PIXELS})"
    if not isinstance(data, np.ndarray) or data.ndim == 0 or data.size == 0:
        raise ValueError(f"{path} holds no {wanted}")
    data = np.asarray(data)
    rows: NDArray[np.uint8] = data.reshape(len(data), -1)
    if rows.dtype != np.uint8 or rows.shape[1] != PIXELS or (images is not None and len(rows) != images):
        raise ValueError(f"{path} holds {data.dtype} 'data' of shape {data.shape}, expected {wanted}")
    return rows


def load_imagenet32(root: str | Path | None = None, *, download: bool = False) -> RowSet:
    """ImageNet32 from its npz or pickled batches. The published validation images are the test split.

    Uncompressed npz batches are memory-mapped. Compressed batches and pickles are read into memory (3.9 GB for all
    ten batches).
    """
    folder = IMAGENET32.locate(root, download=download)
    paths = batch_files(folder, "train_data_batch_", 10, (".npz", ""))
    test_paths = [path for path in (folder / "val_data.npz", folder / "val_data") if path.is_file()]
    if len(test_paths) != 1:
        raise ValueError(f"{folder} has {len(test_paths)} files val_data.npz or val_data, expected one")
    test_path = test_paths[0]
    joined = JoinedRows([read_batch(path) for path in paths])
    train, valid = hold_out(joined, HELD_OUT)
    test = read_batch(test_path)
    counts = ((len(joined), IMAGENET_TRAIN, "training"), (len(test), IMAGENET_TEST, "validation"))
    note = "; ".join(f"{found:,} of {all_:,} {what} images" for found, all_, what in counts if found != all_)
    digest = files_sha256([*paths, test_path])
    return RowSet("imagenet32", train, valid, test, SHAPE, 256, str(folder), digest, note)
