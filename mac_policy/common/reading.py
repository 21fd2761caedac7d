"""Files from outside: read by a parser, refused by name where they are damaged, too large or not what they should be.

A parser of a damaged file may raise anything. `reading` is the one place where that becomes an error that names the
file; `read_record` is the one way from JSON to checked values.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from mac_policy.common.settings import S, from_mapping

LARGEST_JSON = 1 << 28
MOST_DEFLATED = 1100
"""No deflated data expand by a larger factor."""
SLACK = 1 << 20


@contextmanager
def reading(path: Path | str, what: str, kind: type[ValueError] = ValueError) -> Iterator[None]:
    """Whatever a parser raises within the context becomes an error of this kind that names the file and says that it
    is no `what`. Errors of the system, and values that name the file already, stay as they are.

    >>> from mac_policy.common.reading import reading
    >>> with reading("table.npy", "array"):
    ...     {}["shape"]
    Traceback (most recent call last):
    ValueError: table.npy is truncated or no array: KeyError: 'shape'
    """
    try:
        yield
    except Exception as error:
        from_system = isinstance(error, OSError) and error.filename is not None
        if from_system or (isinstance(error, ValueError) and str(path) in str(error)):
            raise
        text = " ".join(str(error).split())
        said = f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__
        raise kind(f"{path} is truncated or no {what}: {said}") from error


def parse_json(text: str | bytes, where: str, kind: type[ValueError] = ValueError, infinite: bool = False) -> Any:
    """The value of a JSON text; an error that names `where` for anything else, NaN and infinity included unless
    `infinite`."""

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is no number of JSON")

    try:
        return json.loads(text, parse_constant=None if infinite else refuse)
    except (ValueError, RecursionError, MemoryError) as error:
        said = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise kind(f"{where} is not JSON: {said}") from error


def read_json(path: Path, kind: type[ValueError] = ValueError) -> Any:
    """The value of a JSON file, see `parse_json`; FileNotFoundError where there is none."""
    if (size := path.stat().st_size) > LARGEST_JSON:
        raise kind(f"{path} has {size:,} bytes: no file of this package has more than {LARGEST_JSON:,}")
    with reading(path, "text", kind):
        text = path.read_text(encoding="utf-8")
    return parse_json(text, str(path), kind)


def checked(cls: type[S], values: Any, where: str, kind: type[ValueError] = ValueError) -> S:
    """A record of the fields of `cls` from the value of a JSON text; errors name `where`.

    >>> from mac_policy.common.reading import checked
    >>> from mac_policy.training.settings import TrainSettings
    >>> checked(TrainSettings, {"steps": "many"}, "config.json")
    Traceback (most recent call last):
    ValueError: config.json: training.steps must be a whole number of at least 0, got 'many'
    """
    try:
        return from_mapping(cls, values, "record")
    except (TypeError, ValueError, RecursionError) as error:
        raise kind(f"{where}: {error}") from error


def check_stored(path: Path | str, what: str, promised: int, stored: int, factor: int = MOST_DEFLATED) -> None:
    """ValueError where the header of a file promises more bytes than the file can hold, or the machine: checked before
    anything is allocated. factor: by how much stored data may expand (1: they are not compressed)."""
    if promised > factor * stored + SLACK * (factor > 1):
        raise ValueError(f"{path}: {what} promises {promised:,} bytes, the file holds {stored:,}: it is damaged")
    if promised > (most := memory()):
        raise ValueError(f"{path}: {what} has {promised:,} bytes, this machine {most:,} of memory")


def memory() -> int:
    """Bytes of this machine's memory."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on this system
        return 1 << 40
