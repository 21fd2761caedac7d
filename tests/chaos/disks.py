"""Disks that are full, and folders that cannot be written, by mounts of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def mount(*words: object) -> None:
    """Skips the test where this machine mounts nothing."""
    if shutil.which("mount") is None or os.geteuid() != 0:
        pytest.skip("only root may mount")
    done = subprocess.run(["mount", *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """The folder as a disk of its own, in memory."""
    folder.mkdir(parents=True, exist_ok=True)
    mount("-t", "tmpfs", "-o", "size=64m", "tmpfs", folder)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def resize(folder: Path, size: int) -> None:
    mount("-o", f"remount,size={size}", folder)


def used(folder: Path) -> int:
    """Bytes that are taken on the disk of the folder."""
    found = os.statvfs(folder)
    return (found.f_blocks - found.f_bfree) * found.f_frsize


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """The folder cannot be written, by root neither."""
    mount("--bind", folder, folder)
    try:
        mount("-o", "remount,bind,ro", folder)
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
