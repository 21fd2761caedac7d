"""HDF5 files, checked before their arrays are read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mac_policy.common.reading import check_stored, reading


@contextmanager
def open_hdf5(path: Path, what: str = "HDF5 file") -> Iterator[Any]:
    """An HDF5 file for reading. ValueError naming the file where it is damaged, where a link leads out of it, or where
    an array promises more numbers than the file holds."""
    import h5py

    with reading(path, what), h5py.File(path, "r") as file:
        _check(file, path)
        yield file


def _check(file: Any, path: Path) -> None:
    """Look at every link and array of the file once, without reading an array."""
    import h5py

    seen: set[Any] = set()
    groups = [file]
    while groups:
        group = groups.pop()
        if group.id in seen:
            continue
        seen.add(group.id)
        for name in group:
            link = group.get(name, getlink=True)
            if isinstance(link, h5py.ExternalLink):
                raise ValueError(f"{path}: {group.name}/{name} is a link to another file, {link.filename}")
            entry = group[name]
            if isinstance(entry, h5py.Group):
                groups.append(entry)
            elif isinstance(entry, h5py.Dataset):
                _check_array(entry, path)


def _check_array(array: Any, path: Path) -> None:
    if array.shape is None:  # it holds nothing
        return
    if array.external or array.is_virtual:
        raise ValueError(f"{path}: the numbers of {array.name} lie in another file")
    stored = array.id.get_storage_size()
    check_stored(path, array.name, array.nbytes, stored, factor=1 if array.chunks is None else 1100)
