"""Folders of image files as rows: CelebA-HQ at 64 x 64 and ImageNet at 64 x 64.

Each image is read when it is indexed, so that a data set can be larger than memory. The image is cropped to its
central square and downsampled by averaging. Rows have the shape (3, size, size), channels first, and values 0..255.

Images are ordered by a hash of their names. Names are often sorted by class: in their order, the first rows would
contain few classes, and the held-out rows would contain classes without training rows.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mac_policy.common.checks import check_choice
from mac_policy.common.reading import reading
from mac_policy.rows.sets.published import Published
from mac_policy.rows.sets.row_set import RowSet

SIZE = 64
MOST_PIXELS = 50_000_000
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
TRAIN, VALID, TEST = ("train", "training"), ("valid", "validation", "val"), ("test", "testing")
SHARES = (0.9, 0.95)  # cumulative shares of the training and validation splits of a folder without splits

FOLDERS = {
    "celeba64": Published(
        "celeba64",
        files=("image files, in train/, valid/ and test/ or all together (CelebA-HQ: 30,000)",),
        markers=("*",),
        downloads=(),
        aliases=("celeba-hq64", "celeba_hq", "CelebA-HQ", "celeba_hq_256"),
        has_folder=True,
    ),
    "imagenet64": Published(
        "imagenet64",
        files=("image files in train/ (also in a folder for each class) and val/",),
        markers=("train", "val"),
        downloads=(),
        aliases=("imagenet", "ILSVRC2012", "Imagenet64"),
        has_folder=True,
    ),
}


class ImageFiles:
    """Rows (S, 3 * size * size) uint8, one for each image file. A file is read when its row is indexed."""

    def __init__(self, paths: Sequence[Path], size: int = SIZE) -> None:
        self.paths, self.size = list(paths), size

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: Any) -> NDArray[np.uint8]:
        if isinstance(index, slice):
            chosen = self.paths[index]
        else:
            chosen = [self.paths[i] for i in np.asarray(index).reshape(-1)]
        rows = np.empty((len(chosen), 3 * self.size**2), np.uint8)
        for row, path in zip(rows, chosen, strict=True):
            row[:] = read_square(path, self.size)
        return rows

    def head(self, count: int) -> ImageFiles:
        """The first `count` rows. No file is read."""
        return ImageFiles(self.paths[:count], self.size)


def read_square(path: Path, size: int) -> NDArray[np.uint8]:
    """Read the central square of an image file, downsampled by averaging. (3 * size * size,)"""
    from PIL import Image

    with reading(path, "readable image"), Image.open(path) as image:
        if image.width * image.height > MOST_PIXELS:
            raise ValueError(f"{path} promises {image.width} x {image.height} pixels, more than {MOST_PIXELS:,}")
        whole = image.convert("RGB")
    side = min(whole.size)
    left, top = ((length - side) // 2 for length in whole.size)
    square = whole.resize((size, size), Image.Resampling.BOX, box=(left, top, left + side, top + side))
    pixels: NDArray[np.uint8] = np.asarray(square).transpose(2, 0, 1).reshape(-1)
    return pixels


def load_folder(
    name: str,
    root: str | Path | None = None,
    *,
    download: bool = False,
    size: int = SIZE,
) -> RowSet:
    """One of `FOLDERS`, with its sub-folders as splits. A missing split is held out from the training images.

    Without a folder of training images, all images are split 90 / 5 / 5. Without a test folder, the validation images
    are the test images, as is usual for ImageNet. Images are in the order of `image_files`, so that held-out images
    and the first images of a split come from all classes.
    """
    folder = FOLDERS[check_choice("image folder", name, FOLDERS)].locate(root, download=download)
    paths = splits(folder)
    train, valid, test = (ImageFiles(part, size) for part in paths)
    digest = names_sha256(folder, [path for part in paths for path in part])
    return RowSet(name, train, valid, test, (3, size, size), 256, str(folder), digest)


def splits(folder: Path) -> tuple[list[Path], list[Path], list[Path]]:
    """The image files of the training, validation and test splits."""
    found = [_images_of_first(folder, names) for names in (TRAIN, VALID, TEST)]
    train, valid, test = found
    if not train:
        paths = image_files(folder)
        if len(paths) < 3:
            raise ValueError(f"{folder} has {len(paths)} image files ({', '.join(SUFFIXES)}), at least 3 are needed")
        first, second = (max(1, min(round(share * len(paths)), len(paths) - 2)) for share in SHARES)
        second = max(first + 1, second)
        return paths[:first], paths[first:second], paths[second:]
    if not test:
        valid, test = [], valid
    if not test:
        train, test = last_cut_off(train, 0.05)
    if not valid:
        train, valid = last_cut_off(train, 0.02)
    return train, valid, test


def last_cut_off(paths: list[Path], share: float) -> tuple[list[Path], list[Path]]:
    """Split off the last `share` of the paths: (the remaining paths, the last paths), at least one path each."""
    if len(paths) < 2:
        raise ValueError(f"{paths[0].parent} has one image alone: none is left to hold out")
    kept = max(1, len(paths) - max(1, round(share * len(paths))))
    return paths[:kept], paths[kept:]


def _images_of_first(folder: Path, names: Sequence[str]) -> list[Path]:
    return next((image_files(folder / name) for name in names if (folder / name).is_dir()), [])


def image_files(folder: Path) -> list[Path]:
    """All image files below a folder, ordered by a hash of their relative paths.

    The order is pseudorandom and deterministic. An added file does not change the order of the other files.
    """
    found = [
        Path(where) / name for where, _, names in os.walk(folder) for name in names if name.lower().endswith(SUFFIXES)
    ]
    return sorted(found, key=lambda path: hashlib.sha256(path.relative_to(folder).as_posix().encode()).digest())


def names_sha256(folder: Path, paths: Sequence[Path]) -> str:
    """A sha256 of the names and sizes of the files. Hashing the content of millions of images would take hours."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.relative_to(folder).as_posix()} {path.stat().st_size}\n".encode())
    return digest.hexdigest()
