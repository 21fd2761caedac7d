"""A trained policy as plain data, which worker processes load and results can name."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mac_policy.common.digest import file_sha256
from mac_policy.policies.checkpoint import BEST, WEIGHTS, load_policy, read_config
from mac_policy.policies.policy import Policy


@dataclass(frozen=True)
class SavedPolicy:
    """A policy folder and the settings to change when it is loaded."""

    folder: str
    settings: tuple[tuple[str, Any], ...] = ()
    weights: str = "last"

    @staticmethod
    def of(folder: str | Path, settings: Mapping[str, Any] | None = None, weights: str = "last") -> SavedPolicy:
        return SavedPolicy(str(folder), tuple((settings or {}).items()), weights)

    def load(self) -> Policy:
        """The policy; the last few loaded are kept."""
        return _load(self, self.digest())

    def digest(self) -> str:
        """sha256 of the weights."""
        return file_sha256(Path(self.folder) / (BEST if self.weights == "best" else WEIGHTS))

    def identity(self) -> dict[str, Any]:
        """Plain JSON: everything that the policy's answers depend on besides its code."""
        config = read_config(self.folder)
        return {
            "policy": config["policy"],
            "settings": config["settings"] | dict(self.settings),
            "sha256": self.digest(),
        }


@functools.lru_cache(maxsize=8)
def _load(policy: SavedPolicy, digest: str) -> Policy:
    return load_policy(policy.folder, settings=dict(policy.settings), weights=policy.weights)
