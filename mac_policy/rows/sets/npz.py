"""Arrays in npz files: mapped where they lie uncompressed, read where not."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

HEADER = 30  # bytes of a zip member's own header, before its name and extra field


def mapped_member(path: Path, name: str) -> NDArray[Any]:
    """One array of an npz file, as a memory map when it is stored uncompressed."""
    try:
        with zipfile.ZipFile(path) as archive:
            info = archive.getinfo(f"{name}.npy")
            if info.compress_type == zipfile.ZIP_STORED:
                return _mapped(path, info)
            with archive.open(info) as file:
                array: NDArray[Any] = npy.read_array(file, allow_pickle=False)
                return array
    except KeyError as error:
        raise ValueError(f"{path} has no array {name!r}; it has {', '.join(members(path))}") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError) as error:
        raise ValueError(f"{path} is truncated or no npz file: {error}") from error


def members(path: Path) -> list[str]:
    """The names of an npz file's arrays."""
    with zipfile.ZipFile(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


def _mapped(path: Path, info: zipfile.ZipInfo) -> NDArray[Any]:
    with path.open("rb") as file:
        file.seek(info.header_offset)
        local = file.read(HEADER)
        lengths = int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
        file.seek(info.header_offset + HEADER + lengths)
        version = npy.read_magic(file)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = read(file)
        order = "F" if fortran else "C"
        return np.memmap(path, dtype, mode="r", offset=file.tell(), shape=shape, order=order)  # type: ignore[call-overload,no-any-return]
