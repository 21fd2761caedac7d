"""Readers for the file formats of published data sets: npz files and pickles, without execution of pickled code.

Uncompressed arrays of an npz file are memory-mapped. Only arrays and plain values are loaded from a pickle. Any other
class raises an error or, if only its state is needed, is replaced by a `Shell`.
"""

from __future__ import annotations

import io
import pickle
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

HEADER = 30  # bytes of a zip member's local header before its name and extra field


def mapped_member(path: Path, name: str) -> NDArray[Any]:
    """Read one array of an npz file. An uncompressed array is memory-mapped."""
    try:
        with zipfile.ZipFile(path) as archive:
            info = archive.getinfo(f"{name}.npy")
            if info.compress_type == zipfile.ZIP_STORED:
                return _mapped(path, info)
            with archive.open(info) as file:
                array: NDArray[Any] = npy.read_array(file, allow_pickle=False)
                return array
    except KeyError as error:
        members = (member.removesuffix(".npy") for member in archive.namelist())
        raise ValueError(f"{path} has no array {name!r}; it has {', '.join(members)}") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError) as error:
        raise ValueError(f"{path} is truncated or no npz file: {error}") from error


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


_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy.core.multiarray", "scalar"),
    ("numpy._core.multiarray", "scalar"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
    ("builtins", "slice"),
    ("__builtin__", "slice"),
    ("builtins", "object"),
    ("__builtin__", "object"),
    ("copyreg", "_reconstructor"),
    ("copy_reg", "_reconstructor"),
}


class Shell:
    """A placeholder for an object whose class is not loaded. It keeps the pickled arguments and state."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class SafeUnpickler(pickle.Unpickler):
    """An unpickler of numpy arrays and plain containers. Classes of the modules in `shells` become a `Shell`."""

    def __init__(self, file: Any, *, shells: tuple[str, ...] = ()) -> None:
        super().__init__(file, encoding="latin1")
        self._shells = shells

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _ALLOWED:
            return super().find_class(module, name)
        if module.split(".")[0] in self._shells:
            # A pickle builds objects with a class or a function `_new_...(class, ...)`: a Shell stands in for both.
            return type(name, (Shell,), {})
        raise pickle.UnpicklingError(f"{module}.{name} is not among what such a file may hold")


def read_pickle(path: Path, *, shells: tuple[str, ...] = ()) -> Any:
    """Read a pickle. A ValueError names a file that is damaged or is not a pickle."""
    try:
        return SafeUnpickler(io.BytesIO(path.read_bytes()), shells=shells).load()
    except (pickle.UnpicklingError, EOFError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is truncated or no data file: {error}") from error


def frame_columns(path: Path) -> dict[str, NDArray[Any]]:
    """Read a DataFrame that was pickled by pandas 0.14.1 to 1.2, as a mapping from column names to values."""
    frame = read_pickle(path, shells=("pandas",))
    try:
        _, _, _, extra = _manager(frame).state
        blocks = extra["0.14.1"]
        names = blocks["axes"][0].arguments[1]["data"]  # a pickled Index is `_new_Index(class, {"data": labels})`
        columns: dict[int, NDArray[Any]] = {}
        for block in blocks["blocks"]:
            places = np.arange(len(names))[block["mgr_locs"]].tolist()
            columns |= dict(zip(places, np.asarray(block["values"]), strict=True))
        return {str(name): columns[place] for place, name in enumerate(names)}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is no table pickled by pandas 0.14.1 to 1.2 ({error!r})") from error


def _manager(frame: Any) -> Shell:
    """The block manager of a pickled DataFrame, whose state is the manager or a dict that contains it."""
    state = frame.state
    if isinstance(state, dict):
        state = state.get("_mgr", state.get("_data"))
    if not isinstance(state, Shell):
        raise ValueError("no block manager")
    return state
