"""Downloads of published files: with progress, checked, unpacked; a file has its name only when it is complete."""

from __future__ import annotations

import os
import shutil
import tarfile
import threading
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from mac_policy.common.arrays import opened_member
from mac_policy.common.digest import BLOCK, file_digest
from mac_policy.common.locks import incoming
from mac_policy.common.reading import reading

T = TypeVar("T")

CONNECT_SECONDS = 10.0


class Unavailable(Exception):
    """A source does not have the data, or cannot be reached; the message says which."""


def within(seconds: float, call: Callable[[], T]) -> T:
    """`call()`, or Unavailable when it takes longer than `seconds`.

    A name look-up or a silent server has no time-out of its own that holds in all cases, so the call runs in a daemon
    thread, which is abandoned.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    if not wait([future], seconds).done:
        raise Unavailable(f"no answer within {seconds:g} s")
    try:
        return future.result()
    except Exception as error:
        raise Unavailable(brief(error)) from error


def brief(error: Exception) -> str:
    """The kind of an error and the beginning of its message, in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:160]}" if text else type(error).__name__


def offline() -> bool:
    """Whether the user allows no network access (HF_HUB_OFFLINE)."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


@dataclass(frozen=True)
class Download:
    """One file to fetch.

    checksum: 'md5:...' or 'sha256:...'; members: the files to take out of an archive, where they are below `prefix`
    (none: the file is kept as it is).
    """

    url: str
    file_name: str
    checksum: str | None = None
    size: int | None = None
    members: tuple[str, ...] = ()
    prefix: str = ""

    def facts(self) -> str:
        """Size and checksum in brackets, as far as they are known."""
        known = [f"{self.size:,} bytes"] if self.size else []
        known += [self.checksum.replace(":", " ") if self.checksum else "no published checksum"]
        return f" ({', '.join(known)})"


def fetch(download: Download, folder: Path, console: Console, *, seconds: float = CONNECT_SECONDS) -> None:
    """Download into `folder` unless the file or the archive's members are there; ValueError where that fails."""
    if all((folder / name).is_file() for name in download.members or (download.file_name,)):
        return
    if offline():
        raise ValueError(f"{download.url} is needed, and HF_HUB_OFFLINE is set")
    try:
        retrieve(download, folder, console, seconds=seconds)
    except Unavailable as error:
        raise ValueError(f"could not download {error}") from error


def retrieve(download: Download, folder: Path, console: Console, *, seconds: float = CONNECT_SECONDS) -> None:
    """Download into `folder`; Unavailable where the transfer fails, ValueError where other bytes arrive."""
    with incoming(folder) as new:
        part = new / "download"
        try:
            _transfer(download, part, console, seconds)
        except (OSError, Unavailable) as error:
            raise Unavailable(f"{download.url}: {error}") from error
        check_file(part, download.checksum, download.size, what=download.url)
        if download.checksum is None:
            console.print(f"{download.url} has no published checksum; sha256 {file_digest(part, 'sha256')} arrived")
        if download.members:
            _unpack(part, download, folder)
        else:
            part.replace(folder / download.file_name)


def check_file(path: Path, checksum: str | None, size: int | None = None, *, what: str = "") -> None:
    """ValueError unless the file has the size and checksum, as far as they are known."""
    found = path.stat().st_size
    if size is not None and found != size:
        raise ValueError(f"{what or path} has {found:,} bytes, expected {size:,}: it is truncated or another file")
    if checksum is not None:
        algorithm, _, wanted = checksum.partition(":")
        if (digest := file_digest(path, algorithm)) != wanted:
            raise ValueError(f"{what or path} has {algorithm} {digest}, expected {algorithm} {wanted}")


def _transfer(download: Download, part: Path, console: Console, seconds: float) -> None:
    answer = within(seconds, lambda: urllib.request.urlopen(download.url, timeout=seconds))
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with answer, part.open("wb") as file, Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        total = download.size or int(answer.headers.get("Content-Length") or 0) or None
        task = progress.add_task(download.file_name, total=total)
        while block := answer.read(BLOCK):
            file.write(block)
            progress.advance(task, len(block))


def _unpack(archive: Path, download: Download, folder: Path) -> None:
    """Extract the members; each appears only when it is complete."""
    for name in download.members:
        with incoming(folder) as new:
            try:
                with reading(archive, "archive"), _member(archive, download.prefix + name) as source:
                    part = new / "member"
                    with part.open("wb") as file:
                        shutil.copyfileobj(source, file, BLOCK)
            except ValueError as error:
                raise ValueError(f"{download.url} has no readable {name}: {error.__cause__ or error}") from error
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            part.replace(folder / name)


@contextmanager
def _member(archive: Path, name: str) -> Iterator[IO[bytes]]:
    opened: Any
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened, opened_member(opened, opened.getinfo(name), archive) as source:
            yield source
        return
    with tarfile.open(archive) as opened:
        found = opened.extractfile(name)
        if found is None:
            raise KeyError(f"{name} is no file")
        yield found
