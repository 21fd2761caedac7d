"""Fingerprints: of the content of demonstrations and of files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from mac_policy.demonstrations.episode import Episode

_ARRAYS = ("observations", "actions", "rewards", "terminations", "truncations", "executed")


def content_sha256(episodes: Iterable[Episode]) -> str:
    """sha256 of what the episodes hold: every array with its shape, the completions and the seeds.

    The same episodes give the same digest whatever file format they were read from.
    """
    digest = hashlib.sha256()
    for episode in episodes:
        digest.update(repr((episode.completed, episode.seed)).encode())
        for name in _ARRAYS:
            values = getattr(episode, name)
            if values is not None:
                digest.update(f"{name}{values.shape}".encode())
                digest.update(np.ascontiguousarray(values).data)
    return digest.hexdigest()


def file_sha256(path: Path) -> str:
    """sha256 of a file's bytes."""
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def code_sha256(files: Iterable[Path]) -> str:
    """sha256 of source files, whatever their order: tells one version of a program from another."""
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()
