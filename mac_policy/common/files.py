"""Files written atomically: after a failure at any moment a file is the old one or the new one."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import safe_open

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor


class CheckpointError(ValueError):
    """A folder of a trained model cannot be used; the message names the file and the defect.

    >>> from mac_policy import load_policy
    >>> load_policy("nowhere")
    Traceback (most recent call last):
    mac_policy.common.files.CheckpointError: nowhere is not a policy folder: it holds no config.json
    """


def write_bytes(path: Path, data: bytes) -> None:
    """Write beside the file, sync to the disk, then rename over it. A failure leaves the old file and no litter."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    _sync_folder(path.parent)


def remove_litter(folder: Path) -> None:
    """Remove what processes that were killed in the middle of a write have left."""
    for path in folder.glob(".*.tmp"):
        path.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """As `write_bytes`, in UTF-8."""
    write_bytes(path, text.encode())


def write_figure(path: Path, figure: Figure, dpi: int = 120) -> Path:
    """As `write_bytes`, a figure of matplotlib as a PNG. The folder is made where it is missing."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, buffer.getvalue())
    return path


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """As `write_bytes`, in the safetensors format."""
    from safetensors.torch import save

    ready = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_bytes(path, save(ready, dict(metadata or {})))


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file."""
    from safetensors.torch import load

    return load(path.read_bytes())


def read_metadata(path: Path) -> dict[str, str]:
    """The metadata of a safetensors file; FileNotFoundError or SafetensorError where it cannot be read."""
    with safe_open(path, framework="pt") as file:
        return dict(file.metadata() or {})


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # some file systems cannot sync a folder
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
