"""Locks on folders: one process at a time writes into a folder. A lock ends with the process that holds it."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

fcntl: Any
try:
    import fcntl
except ImportError:  # not on this system: nothing is locked
    fcntl = None

LOOK_SECONDS = 0.2
INCOMING = ".incoming-"


class InUse(ValueError):
    """Another process writes into the folder."""


@contextmanager
def locked(folder: Path, *, wait: Callable[[str], None] | None = None) -> Iterator[None]:
    """Hold the lock of a folder, which is made where it is missing. The folder itself is locked: no file is left.

    wait: where another process holds the lock, is told so once, and the lock is waited for; without it, InUse is raised

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder, locked(Path(folder) / "run"):
    ...     [path.name for path in Path(folder).iterdir()]
    ['run']
    """
    descriptor = _lock_folder(folder)
    if descriptor is None:
        if wait is None:
            raise InUse(f"{folder} is in use by another process: wait until it ends, or choose another folder")
        wait(f"waiting for another process, which is writing into {folder}")
        while (descriptor := _lock_folder(folder)) is None:
            time.sleep(LOOK_SECONDS)
    try:
        yield
    finally:
        os.close(descriptor)


@contextmanager
def incoming(parent: Path) -> Iterator[Path]:
    """A temporary folder within `parent`, removed afterwards. What killed processes have left there is removed first.

    Its owner holds its lock, which tells it from what a killed process has left.
    """
    parent.mkdir(parents=True, exist_ok=True)
    remove_left(parent)
    while True:
        folder, descriptor = Path(tempfile.mkdtemp(prefix=INCOMING, dir=parent)), None
        with contextlib.suppress(FileNotFoundError):
            descriptor = _try_lock(folder)
        if descriptor is not None and _is_still(folder, descriptor):
            break
        if descriptor is not None:  # another process has taken it for one that was left behind
            os.close(descriptor)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def remove_left(parent: Path) -> None:
    """Remove the temporary folders and files within `parent` that have lost their owner."""
    for path in parent.glob(f"{INCOMING}*"):
        with contextlib.suppress(OSError):
            descriptor = _try_lock(path, for_certain=True)
            if descriptor is None:
                continue
            try:
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
            finally:
                os.close(descriptor)


def _try_lock(path: Path, for_certain: bool = False) -> int | None:
    """A descriptor that holds the lock until it is closed; None where another process holds the lock. Where the system
    has no locks, nothing is locked; `for_certain`: None there, too."""
    if fcntl is None:
        return None if for_certain else os.open(os.devnull, os.O_RDONLY)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if for_certain or error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            os.close(descriptor)
            return None
    return descriptor


def _lock_folder(folder: Path) -> int | None:
    """As `_try_lock`, of a folder that the process before may just have removed."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            descriptor = _try_lock(folder)
            if descriptor is None or _is_still(folder, descriptor):
                return descriptor
            os.close(descriptor)


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether the path is still that of the open file."""
    if fcntl is None:
        return True
    try:
        return path.stat().st_ino == os.fstat(descriptor).st_ino
    except FileNotFoundError:
        return False
