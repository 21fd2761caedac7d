"""Malformed files of every kind: each is refused by an error that names the file, or read right."""

from __future__ import annotations

import random
import resource
import shutil
import signal
import traceback
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pytest

from tests.fuzz.readers import READERS, Reader

QUICK, LONG = 6, 120
SECONDS = 20


def cases() -> list[tuple[str, str, int]]:
    return [
        (name, file, way)
        for name, it in READERS.items()
        for file, ways in it.changes.items()
        for way in range(len(ways))
    ]


@contextmanager
def in_time() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError(f"took longer than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def verdict(reader: Reader, folder: Path, file: str) -> str | None:
    """None where the folder is refused by name or read right; else what was wrong."""
    try:
        with in_time(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = reader.read(folder)
            usable = reader.usable(found)
    except (ValueError, OSError) as error:
        if isinstance(error, TimeoutError):
            return str(error)
        names = any(part in str(error) for part in (str(folder), Path(file).name))
        return None if names else f"names no file: {type(error).__name__}: {error}"
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {str(error)[:200]} ({Path(place.filename).name}:{place.lineno})"
    return None if usable else "accepted, and not right"


def run(tmp_path: Path, name: str, file: str, way: int, count: int, seed: int = 0) -> list[str]:
    reader = READERS[name]
    whole = tmp_path / "whole"
    whole.mkdir()
    reader.make(whole)
    assert reader.usable(reader.read(_copy(whole, tmp_path / "copy")))
    data = (whole / file).read_bytes()
    rng = random.Random(zlib.crc32(f"{name} {file} {way} {seed}".encode()))
    wrong = []
    for what, changed in islice(reader.changes[file][way](data, rng), count):
        folder = _copy(whole, tmp_path / "copy")
        (folder / file).write_bytes(changed)
        found = verdict(reader, folder, file)
        if found is not None:
            wrong.append(f"{name}, {file}: {what}: {found}")
    return wrong


def _copy(whole: Path, to: Path) -> Path:
    shutil.rmtree(to, ignore_errors=True)
    return Path(shutil.copytree(whole, to))


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


@pytest.mark.parametrize(("name", "file", "way"), cases())
def test_a_malformed_file_is_refused_by_name_or_read_right(tmp_path, name, file, way):
    before = peak()
    wrong = run(tmp_path, name, file, way, QUICK)
    assert not wrong, "\n".join(wrong)
    assert peak() - before < 500, "memory was allocated for what a file promises"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "file", "way"), cases())
def test_many_malformed_files(tmp_path, name, file, way):
    wrong = run(tmp_path, name, file, way, LONG, seed=1)
    assert not wrong, "\n".join(wrong)


def test_the_quick_run_has_five_hundred_inputs():
    assert len(cases()) * QUICK >= 500
