"""Arrays in the formats that data sets are published in: npz files, and pickles, which are read without running code.

Arrays of an npz file are mapped where they are stored uncompressed. Of a pickle only arrays and plain values are
loaded: every other class that it names is refused or, where its state alone is needed, replaced by an empty shell.
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
    """Stands in for an object of a class that is not loaded; keeps what the pickle says of it."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class SafeUnpickler(pickle.Unpickler):
    """Loads numpy arrays and plain containers; classes of the modules in `shells` become a Shell."""

    def __init__(self, file: Any, *, shells: tuple[str, ...] = ()) -> None:
        super().__init__(file, encoding="latin1")
        self._shells = shells

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _ALLOWED:
            return super().find_class(module, name)
        if module.split(".")[0] in self._shells:
            # Pickles build objects by a class, or by a function `_new_...(class, ...)`: both are called here.
            return type(name, (Shell,), {})
        raise pickle.UnpicklingError(f"{module}.{name} is not among what such a file may hold")


def read_pickle(path: Path, *, shells: tuple[str, ...] = ()) -> Any:
    """The content of a pickle; ValueError naming the file where it is none, or damaged."""
    try:
        return SafeUnpickler(io.BytesIO(path.read_bytes()), shells=shells).load()
    except (pickle.UnpicklingError, EOFError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is truncated or no data file: {error}") from error


def frame_columns(path: Path) -> dict[str, NDArray[Any]]:
    """Column name to values of a DataFrame pickled in the form that pandas wrote from 0.14.1 to 1.2."""
    frame = read_pickle(path, shells=("pandas",))
    try:
        _, _, _, extra = _manager(frame).state
        blocks = extra["0.14.1"]
        names = blocks["axes"][0].arguments[1]["data"]  # of a pickled Index: `_new_Index(class, {"data": labels})`
        columns: dict[int, NDArray[Any]] = {}
        for block in blocks["blocks"]:
            places = np.arange(len(names))[block["mgr_locs"]].tolist()
            columns |= dict(zip(places, np.asarray(block["values"]), strict=True))
        return {str(name): columns[place] for place, name in enumerate(names)}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is no table pickled by pandas 0.14.1 to 1.2 ({error!r})") from error


def _manager(frame: Any) -> Shell:
    """A DataFrame's state is its block manager, or a dict that holds it."""
    state = frame.state
    if isinstance(state, dict):
        state = state.get("_mgr", state.get("_data"))
    if not isinstance(state, Shell):
        raise ValueError("no block manager")
    return state
