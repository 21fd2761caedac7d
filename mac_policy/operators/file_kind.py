"""Kinds of operators that read a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gymnasium import spaces

from mac_policy.common.digest import file_sha256
from mac_policy.operators.dims import OperatorDims
from mac_policy.operators.registry import OperatorKind, Resources


@dataclass(frozen=True)
class FileKind(OperatorKind):
    """path: of the file"""

    path: Path | None = None

    def __post_init__(self) -> None:
        if self.path is None:
            raise ValueError(f"operator={self.name} needs operator.path")
        if not Path(self.path).is_file():
            raise ValueError(f"operator.path={self.path}: there is no such file")

    def identity(self) -> dict[str, Any]:
        found = super().identity()
        return found | {"file": file_sha256(Path(found.pop("path")))}

    def check(self, dims: OperatorDims, space: spaces.Box) -> None:
        self.make(dims, 1, Resources(space))
