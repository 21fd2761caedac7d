"""Measurements in a file, with the facts that decide them: they are made once and read again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError
from torch import Tensor

from mac_policy.common import files as atomic


class Kept(NamedTuple):
    """Measurements, and the seconds that they took."""

    tensors: Mapping[str, Tensor]
    seconds: float


def read_kept(path: Path, facts: Mapping[str, Any]) -> Kept | None:
    """The measurements with the same facts; None if the file is missing or damaged or has other facts."""
    try:
        metadata = atomic.read_metadata(path)
        if json.loads(metadata["facts"]) != facts:
            return None
        return Kept(atomic.read_tensors(path), json.loads(metadata["seconds"]))
    except (FileNotFoundError, KeyError, SafetensorError):
        return None


def write_kept(path: Path, kept: Kept, facts: Mapping[str, Any]) -> None:
    """Write the measurements and their facts, plain JSON, in one atomic step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_tensors(path, kept.tensors, {"facts": json.dumps(facts), "seconds": json.dumps(kept.seconds)})
