"""Arrays in npy and npz files, whose headers are checked before anything is allocated; nothing is unpickled."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from mac_policy.common.reading import check_stored, reading

ENCRYPTED = 1


def read_npy(path: Path) -> NDArray[Any]:
    """The array of an npy file; ValueError naming the file where there is none."""
    with reading(path, "npy file"), path.open("rb") as file:
        read_header(file, path, path.stat().st_size)
        file.seek(0)
        array: NDArray[Any] = npy.read_array(file, allow_pickle=False)
        return array


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an npz file by name; ValueError naming the file where there are none."""
    with reading(path, "npz file"), zipfile.ZipFile(path) as archive:
        return {info.filename.removesuffix(".npy"): read_member(archive, info, path) for info in archive.infolist()}


def read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> NDArray[Any]:
    """The array of a member of an npz file."""
    with opened_member(archive, info, path) as file:
        read_header(file, path, info.file_size)
    with opened_member(archive, info, path) as file:
        array: NDArray[Any] = npy.read_array(file, allow_pickle=False)
        return array


@contextmanager
def opened_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> Iterator[IO[bytes]]:
    """A member of a zip file; ValueError where it is encrypted or promises more than the archive can hold."""
    if info.flag_bits & ENCRYPTED:
        raise ValueError(f"{path}: its member {info.filename} is encrypted")
    check_stored(path, f"its member {info.filename}", info.file_size, info.compress_size)
    with reading(path, "zip file"), archive.open(info) as file:
        yield file


def read_header(file: IO[bytes], path: Path, stored: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type of an npy header, which must fit into the bytes that are stored."""
    version = npy.read_magic(file)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = read(file)
    if dtype.hasobject:
        raise ValueError(f"{path} holds pickled objects, which are never loaded")
    if any(size < 0 for size in shape):
        raise ValueError(f"{path} has an array of shape {shape}")
    check_stored(path, "its array", math.prod(shape) * dtype.itemsize, stored, factor=1)
    return shape, fortran, dtype
