"""Downloading a published file: with progress, checked, unpacked; never a half of it under its own name."""

from __future__ import annotations

import hashlib
import shutil
import tarfile
import tempfile
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from mac_policy.demonstrations.remote import CONNECT_SECONDS, Unavailable, offline, within

BLOCK = 1 << 20


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
        known += [self.checksum.replace(":", " ")] if self.checksum else []
        return f" ({', '.join(known)})" if known else ""


def fetch(download: Download, folder: Path, console: Console, *, seconds: float = CONNECT_SECONDS) -> None:
    """Download into `folder`, which then has the file or the archive's members."""
    if all((folder / name).is_file() for name in download.members or (download.file_name,)):
        return
    if offline():
        raise ValueError(f"{download.url} is needed, and HF_HUB_OFFLINE is set")
    folder.mkdir(parents=True, exist_ok=True)
    with _incoming(folder) as part:
        try:
            _transfer(download, part, console, seconds)
        except (OSError, Unavailable) as error:
            raise ValueError(f"could not download {download.url}: {error}") from error
        check_file(part, download.checksum, download.size, what=download.url)
        if download.members:
            _unpack(part, download, folder)
        else:
            part.replace(folder / download.file_name)


def check_file(path: Path, checksum: str | None, size: int | None = None, *, what: str = "") -> None:
    """ValueError unless the file has the size and checksum, as far as they are known."""
    found = path.stat().st_size
    if size is not None and found != size:
        raise ValueError(f"{what or path} has {found:,} bytes, expected {size:,}: it is truncated or another file")
    if checksum is not None and (digest := file_digest(path, checksum.split(":")[0])) != checksum:
        raise ValueError(f"{what or path} has {digest.replace(':', ' ')}, expected {checksum.replace(':', ' ')}")


def file_digest(path: Path, algorithm: str) -> str:
    """'md5:...' or 'sha256:...' of a file's bytes."""
    digest = hashlib.new(algorithm, usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return f"{algorithm}:{digest.hexdigest()}"


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
    """Take the members out, each whole or not at all."""
    for name in download.members:
        with _incoming(folder) as part:
            try:
                with _member(archive, download.prefix + name) as source, part.open("wb") as file:
                    shutil.copyfileobj(source, file, BLOCK)
            except (KeyError, EOFError, tarfile.TarError, zipfile.BadZipFile) as error:
                raise ValueError(f"{download.url} has no readable {name}: {error}") from error
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            part.replace(folder / name)


@contextmanager
def _member(archive: Path, name: str) -> Iterator[IO[bytes]]:
    opened: Any
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened, opened.open(name) as source:
            yield source
        return
    with tarfile.open(archive) as opened:
        found = opened.extractfile(name)
        if found is None:
            raise KeyError(f"{name} is no file")
        yield found


@contextmanager
def _incoming(folder: Path) -> Iterator[Path]:
    """A temporary file beside the target, gone afterwards."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".incoming-", delete=False) as file:
        part = Path(file.name)
    try:
        yield part
    finally:
        part.unlink(missing_ok=True)
