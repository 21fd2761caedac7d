"""Everything a run needs to go on where it stopped, in one safetensors file that is replaced as a whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from mac_policy.common import files as atomic

STATE = "state.safetensors"


class ResumeError(ValueError):
    """A saved state that cannot be continued; the message says why."""


def save_state(
    folder: Path, modules: Mapping[str, nn.Module], optimizer: torch.optim.Optimizer, facts: Mapping[str, Any]
) -> None:
    """Weights of the modules, the optimiser's moments, and plain facts (step, metrics, fingerprint)."""
    tensors = {f"{name}.{k}": v for name, module in modules.items() for k, v in module.state_dict().items()}
    for index, entry in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{key}": value for key, value in entry.items()}
    atomic.write_tensors(folder / STATE, tensors, {"facts": json.dumps(facts)})


def read_facts(folder: Path) -> dict[str, Any] | None:
    """The facts of a saved state, None where there is none."""
    path = folder / STATE
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            facts: dict[str, Any] = json.loads(file.metadata()["facts"])
            return facts
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ResumeError(f"{path} is damaged ({error}): remove it to start afresh") from error


def load_state(folder: Path, modules: Mapping[str, nn.Module], optimizer: torch.optim.Optimizer) -> None:
    """The inverse of `save_state`, into modules and an optimiser of the same make."""
    with safe_open(folder / STATE, framework="pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    for name, module in modules.items():
        module.load_state_dict(_below(tensors, name))
    entries: dict[int, dict[str, Tensor]] = {}
    for key, value in _below(tensors, "optimizer").items():
        index, slot = key.split(".", 1)
        entries.setdefault(int(index), {})[slot] = value
    optimizer.load_state_dict({"state": entries, "param_groups": optimizer.state_dict()["param_groups"]})


def _below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k[len(prefix) + 1 :]: v for k, v in tensors.items() if k.startswith(prefix + ".")}
