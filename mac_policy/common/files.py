"""Files written atomically: after a failure at any moment a file is the old one or the new one."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

SEAL, UNSEALED = "crc32", "0" * 8
_SEALED = re.compile(rb'"crc32":"[0-9a-f]{8}"')


class CheckpointError(ValueError):
    """A folder of a trained model cannot be used; the message names the file and the defect.

    >>> from mac_policy import load_policy
    >>> load_policy("nowhere")
    Traceback (most recent call last):
    mac_policy.common.files.CheckpointError: nowhere is not a policy folder: it holds no config.json
    """


def write_bytes(path: Path, data: bytes) -> None:
    """Write beside the file, sync to the disk, then rename over it. A failure leaves the old file and no litter, and
    its OSError names the file."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        if isinstance(error, OSError):
            raise named(error, path) from error
        raise
    _sync_folder(path.parent)


def named(error: OSError, path: Path) -> OSError:
    """The same error with the name of the file: that of a full disk has none."""
    return OSError(error.errno, error.strerror, str(path)) if error.errno else OSError(f"{path}: {error}")


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors of the system within the context that name no file name this one: the full disk of a writer of films.

    >>> from pathlib import Path
    >>> with naming(Path("film.mp4")):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
    OSError: [Errno 28] No space left on device: 'film.mp4'
    """
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        raise named(error, path) from error


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
    """As `write_bytes`, in the safetensors format, with a checksum of the whole file in its metadata."""
    from safetensors.torch import save

    ready = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_bytes(path, _sealed(save(ready, {**(metadata or {}), SEAL: UNSEALED})))


def read_tensors(path: Path, largest: int | None = None) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata of a safetensors file. CheckpointError where the file is damaged, where its checksum
    is not that of its bytes, or where it has more than `largest` bytes. Files of other programs have no checksum."""
    from safetensors.torch import load

    size = path.stat().st_size
    if largest is not None and size > largest:
        raise CheckpointError(f"{path} has {size:,} bytes, more than the {largest:,} that are expected")
    data = path.read_bytes()
    try:
        tensors = load(data)
        notes = _metadata(data)
    except Exception as error:  # a damaged header breaks the parser in many ways
        text = " ".join(str(error).split())[:200]
        raise CheckpointError(f"{path} is truncated or damaged: {text}") from error
    if SEAL in notes and _checksum(data) != notes.pop(SEAL):
        raise CheckpointError(f"{path} is damaged: its checksum is not that of its content")
    return tensors, notes


def _sealed(data: bytes) -> bytes:
    """The file with its checksum, and with the metadata in one order: safetensors itself writes them in any."""
    header, content = _header(data)
    known = json.loads(header)
    known["__metadata__"] = dict(sorted(known["__metadata__"].items()))
    text = json.dumps(known, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    size = len(text).to_bytes(8, "little")
    seal = _crc(size, text, content)
    return b"".join([size, _SEALED.sub(b'"%s":"%s"' % (SEAL.encode(), seal.encode()), text, count=1), content])


def _checksum(data: bytes) -> str:
    header, content = _header(data)
    unsealed = b'"%s":"%s"' % (SEAL.encode(), UNSEALED.encode())
    return _crc(data[:8], _SEALED.sub(unsealed, header, count=1), content)


def _crc(*parts: bytes | memoryview) -> str:
    value = 0
    for part in parts:
        value = zlib.crc32(part, value)
    return f"{value:08x}"


def _header(data: bytes) -> tuple[bytes, memoryview]:
    """The JSON header of a safetensors file, and what follows it."""
    size = int.from_bytes(data[:8], "little")
    return data[8 : 8 + size], memoryview(data)[8 + size :]


def _metadata(data: bytes) -> dict[str, str]:
    found: dict[str, str] = json.loads(_header(data)[0]).get("__metadata__") or {}
    return found


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # some file systems cannot sync a folder
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
