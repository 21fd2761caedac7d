"""Readers for the file formats of published data sets: npz files and pickles, without execution of pickled code.

Uncompressed arrays of an npz file are memory-mapped. Only arrays and plain values are loaded from a pickle. Any other
class raises an error or, if only its state is needed, is replaced by a `Shell`.
"""

from __future__ import annotations

import io
import math
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mac_policy.common.arrays import ENCRYPTED, read_header, read_member
from mac_policy.common.reading import reading

HEADER = 30  # bytes of a zip member's local header before its name and extra field


def mapped_member(path: Path, name: str) -> NDArray[Any]:
    """Read one array of an npz file. An uncompressed array is memory-mapped."""
    with reading(path, "npz file"), zipfile.ZipFile(path) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        if name not in members:
            raise ValueError(f"{path} has no array {name!r}; it has {', '.join(members)}")
        info = members[name]
        if info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & ENCRYPTED:
            return _mapped(path, info)
        return read_member(archive, info, path)


def _mapped(path: Path, info: zipfile.ZipInfo) -> NDArray[Any]:
    with path.open("rb") as file:
        file.seek(info.header_offset)
        local = file.read(HEADER)
        lengths = int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
        file.seek(info.header_offset + HEADER + lengths)
        shape, fortran, dtype = read_header(file, path, path.stat().st_size - file.tell())
        order = "F" if fortran else "C"
        return np.memmap(path, dtype, mode="r", offset=file.tell(), shape=shape, order=order)  # type: ignore[call-overload,no-any-return]


_RECONSTRUCT = {("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct")}
_ALLOWED = {
    ("numpy.core.multiarray", "scalar"),
    ("numpy._core.multiarray", "scalar"),
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


class Unpickled(np.ndarray):
    """An array of a pickle, whose shape is checked before its values are allocated."""

    most: int

    def __setstate__(self, state: Any, /) -> None:
        shape, dtype = state[1:3] if len(state) == 5 else state[:2]
        if math.prod(shape) * (1 if dtype.hasobject else dtype.itemsize) > self.most:
            raise pickle.UnpicklingError(f"an array of shape {tuple(shape)} is larger than the file")
        super().__setstate__(state)


class SafeUnpickler(pickle.Unpickler):
    """An unpickler of numpy arrays and plain containers. Classes of the modules in `shells` become a `Shell`.

    most: bytes of the file, which no array of it exceeds
    """

    def __init__(self, file: Any, *, most: int, shells: tuple[str, ...] = ()) -> None:
        super().__init__(file, encoding="latin1")
        self._shells, self._most = shells, most

    def _array(self, *_: Any) -> Unpickled:
        found: Unpickled = np.ndarray.__new__(Unpickled, (0,))
        found.most = self._most
        return found

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _RECONSTRUCT:  # called for the type, an empty shape and a code, whatever the file says
            return self._array
        if (module, name) == ("numpy", "ndarray"):  # the type above: it is not called
            return Shell
        if (module, name) in _ALLOWED:
            return super().find_class(module, name)
        if module.split(".")[0] in self._shells:
            # A pickle builds objects with a class or a function `_new_...(class, ...)`: a Shell stands in for both.
            return type(name, (Shell,), {})
        raise pickle.UnpicklingError(f"{module}.{name} is not among what such a file may hold")


def read_pickle(path: Path, *, shells: tuple[str, ...] = ()) -> Any:
    """Read a pickle. A ValueError names a file that is damaged or is not a pickle."""
    with reading(path, "data file"):
        data = path.read_bytes()
        return SafeUnpickler(io.BytesIO(data), most=len(data), shells=shells).load()


def frame_columns(path: Path) -> dict[str, NDArray[Any]]:
    """Read a DataFrame that was pickled by pandas 0.14.1 to 1.2, as a mapping from column names to values."""
    frame = read_pickle(path, shells=("pandas",))
    with reading(path, "table pickled by pandas 0.14.1 to 1.2"):
        _, _, _, extra = _manager(frame).state
        blocks = extra["0.14.1"]
        names = blocks["axes"][0].arguments[1]["data"]  # a pickled Index is `_new_Index(class, {"data": labels})`
        columns: dict[int, NDArray[Any]] = {}
        for block in blocks["blocks"]:
            places = np.arange(len(names))[block["mgr_locs"]].tolist()
            columns |= dict(zip(places, np.asarray(block["values"]), strict=True))
        return {str(name): columns[place] for place, name in enumerate(names)}


def _manager(frame: Any) -> Shell:
    """The block manager of a pickled DataFrame, whose state is the manager or a dict that contains it."""
    state = frame.state
    if isinstance(state, dict):
        state = state.get("_mgr", state.get("_data"))
    if not isinstance(state, Shell):
        raise ValueError("no block manager")
    return state
