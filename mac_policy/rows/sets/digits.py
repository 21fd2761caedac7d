"""Grayscale images of 28 x 28 pixels: MNIST, Fashion-MNIST (idx files) and statically binarised MNIST."""

from __future__ import annotations

import gzip
import hashlib
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mac_policy.common.download import Download
from mac_policy.common.reading import reading
from mac_policy.rows.sets.formats import mapped_member
from mac_policy.rows.sets.published import Published, sole_file
from mac_policy.rows.sets.row_set import RowSet, files_sha256, hold_out

SHAPE = (1, 28, 28)
PIXELS = 784
TRAIN, TEST = "train-images-idx3-ubyte", "t10k-images-idx3-ubyte"
COUNTS = {TRAIN: 60_000, TEST: 10_000}
CONTENT_MD5 = {TRAIN: "6bbc9ace898e44ae57da46a324031adb", TEST: "2646ac647ad5339dbf082846283269ea"}  # MNIST, unpacked
MNIST = Published(
    "mnist",
    files=(f"{TRAIN}[.gz]", f"{TEST}[.gz]"),
    markers=(f"{TRAIN}*", f"{TEST}*"),
    aliases=("MNIST/raw",),
    downloads=(
        Download(
            f"https://ossci-datasets.s3.amazonaws.com/mnist/{TRAIN}.gz",
            f"{TRAIN}.gz",
            "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873",
            9_912_422,
        ),
        Download(
            f"https://ossci-datasets.s3.amazonaws.com/mnist/{TEST}.gz",
            f"{TEST}.gz",
            "md5:9fb629c4189551a2d022fa330f9573f3",
            1_648_877,
        ),
    ),
)
FASHION_MNIST = Published(
    "fashion-mnist",
    files=MNIST.files,
    markers=MNIST.markers,
    aliases=("fashion_mnist", "FashionMNIST/raw", "dataset-fashion-mnist"),
    downloads=(
        Download(
            f"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/{TRAIN}.gz",
            f"{TRAIN}.gz",
            "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            26_421_880,
        ),
        Download(
            f"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/{TEST}.gz",
            f"{TEST}.gz",
            "md5:bef4ecab320f06d8554ea6380940ec79",
            4_422_102,
        ),
    ),
)
SPLITS = {"train": 50_000, "valid": 10_000, "test": 10_000}
AMAT = "http://www.cs.toronto.edu/~larocheh/public/datasets/binarized_mnist/binarized_mnist_{}.amat"
BINARIZED_MNIST = Published(
    "binarized_mnist",
    files=("binarized_mnist_train.amat, binarized_mnist_valid.amat and binarized_mnist_test.amat",
           "or binarized_mnist.npz with train, valid and test"),
    markers=("binarized_mnist*",),
    downloads=tuple(Download(AMAT.format(split), f"binarized_mnist_{split}.amat") for split in SPLITS),
)  # fmt: skip
HELD_OUT = 1 / 60


def load_mnist(root: str | Path | None = None, *, download: bool = False) -> RowSet:
    """MNIST with values 0..255. The last 1,000 training images are held out for validation."""
    return _from_idx(MNIST, MNIST.locate(root, download=download))


def load_fashion_mnist(root: str | Path | None = None, *, download: bool = False) -> RowSet:
    """Fashion-MNIST, split as MNIST. The files have the same names; files with MNIST's content raise a ValueError."""
    return _from_idx(FASHION_MNIST, FASHION_MNIST.locate(root, download=download))


def _from_idx(published: Published, folder: Path) -> RowSet:
    paths = {name: sole_file(folder, f"{name}.gz", name) or folder / name for name in (TRAIN, TEST)}
    images = {}
    for name, path in paths.items():
        images[name] = read_idx(path, (COUNTS[name], 28, 28))
        _check_content(published, path, images[name], CONTENT_MD5[name])
    train, valid = hold_out(images[TRAIN], HELD_OUT)
    digest = files_sha256(list(paths.values()))
    return RowSet(published.name, train, valid, images[TEST], SHAPE, 256, str(folder), digest)


def _check_content(published: Published, path: Path, images: NDArray[np.uint8], mnist_md5: str) -> None:
    header = idx_header((len(images), 28, 28))
    digest = hashlib.md5(header, usedforsecurity=False)
    digest.update(np.ascontiguousarray(images).data)
    is_mnist = digest.hexdigest() == mnist_md5
    if published is MNIST and not is_mnist:
        raise ValueError(f"{path} is not MNIST's: unpacked its md5 is {digest.hexdigest()}, expected {mnist_md5}")
    if published is not MNIST and is_mnist:
        raise ValueError(f"{path} holds MNIST's images, not those of {published.name}")


def idx_header(shape: tuple[int, ...]) -> bytes:
    """The header of an idx file of unsigned bytes with this shape."""
    return bytes([0, 0, 8, len(shape)]) + b"".join(size.to_bytes(4, "big") for size in shape)


def read_idx(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Read an idx file, plain or gzip, as rows. ValueError unless its header and size are those of `shape`."""
    header = idx_header(shape)
    expected = len(header) + math.prod(shape)
    with reading(path, "idx file"), gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        content = file.read(expected + 1)
    if content[: len(header)] != header:
        found = content[: len(header)].hex(" ")
        raise ValueError(f"{path} is no idx file of shape {shape}: it begins with {found}, expected {header.hex(' ')}")
    if len(content) != expected:
        found = f"{len(content):,}" if len(content) < expected else "more"
        raise ValueError(f"{path} has {found} bytes unpacked, expected {expected:,}")
    return np.frombuffer(content, np.uint8, offset=len(header)).reshape(shape[0], -1)


def load_binarized_mnist(root: str | Path | None = None, *, download: bool = False) -> RowSet:
    """Statically binarised MNIST (Larochelle and Murray) in its published splits, with values 0 and 1.

    The published test images are sorted by digit. They are shuffled here with a fixed seed, so that the first rows
    contain all digits.
    """
    folder = BINARIZED_MNIST.locate(root, download=download)
    packed = folder / "binarized_mnist.npz"
    paths = {split: packed if packed.is_file() else folder / f"binarized_mnist_{split}.amat" for split in SPLITS}
    train, valid, test = (_binary(paths[split], split, rows) for split, rows in SPLITS.items())
    test = test[np.random.default_rng(0).permutation(len(test))]
    digest = files_sha256(list(dict.fromkeys(paths.values())))
    return RowSet("binarized_mnist", train, valid, test, SHAPE, 2, str(folder), digest, "test images shuffled")


def _binary(path: Path, split: str, rows: int) -> NDArray[np.uint8]:
    values = mapped_member(path, split) if path.suffix == ".npz" else read_amat(path)
    if values.shape != (rows, PIXELS):
        raise ValueError(f"{path} has {split} of shape {values.shape}, expected ({rows}, {PIXELS}): is it truncated?")
    outside = (values != 0) & (values != 1)
    if outside.any():
        raise ValueError(f"{path} has {values[outside][0]} in {split}: a binarised image has 0 and 1 alone")
    return values.astype(np.uint8, copy=False)


def read_amat(path: Path) -> NDArray[np.uint8]:
    """Read a text file of 0s and 1s that are separated by spaces, as rows (S, 784)."""
    if not path.is_file():
        raise ValueError(f"{path} is missing; expected {' '.join(BINARIZED_MNIST.files)}")
    with reading(path, "text of 0s and 1s"):
        digits = np.frombuffer(path.read_bytes(), np.uint8)
    values = digits[(digits >= ord("0")) & (digits <= ord("9"))] - ord("0")
    return values[: len(values) // PIXELS * PIXELS].reshape(-1, PIXELS)
