"""Digests of files and of code."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

BLOCK = 1 << 20


def file_digest(path: Path, algorithm: str) -> str:
    """Hexadecimal digest of a file's bytes; `algorithm` as `hashlib` names it."""
    digest = hashlib.new(algorithm, usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def file_sha256(path: Path) -> str:
    """sha256 of a file's bytes."""
    return file_digest(path, "sha256")


def code_sha256(files: Iterable[Path]) -> str:
    """sha256 of source files in the order of their paths: tells one version of a program from another."""
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()


@functools.lru_cache
def modules_sha256(*names: str) -> str:
    """sha256 of the source of modules, and of all modules of packages. None of them is executed.

    >>> from mac_policy.common.digest import modules_sha256
    >>> modules_sha256("mac_policy.common") == modules_sha256("mac_policy.core")
    False
    """
    return code_sha256(file for name in names for file in _sources(name))


def _sources(name: str) -> Iterable[Path]:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise ValueError(f"there is no source of a module {name!r}")
    origin = Path(spec.origin)
    return origin.parent.rglob("*.py") if spec.submodule_search_locations else [origin]
