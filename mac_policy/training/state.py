"""The state that a run is resumed from: one safetensors file, which is replaced as a whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from mac_policy.common import files as atomic

STATE = "state.safetensors"


class ResumeError(ValueError):
    """A run that cannot be resumed from its folder; the message says why."""


def save_state(
    folder: Path, modules: Mapping[str, nn.Module], optimizer: torch.optim.Optimizer, facts: Mapping[str, Any]
) -> None:
    """Save the weights of the modules, the optimiser's moments, and plain facts (step, metrics, fingerprint)."""
    tensors = {f"{name}.{k}": v for name, module in modules.items() for k, v in module.state_dict().items()}
    for index, entry in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{key}": value for key, value in entry.items()}
    atomic.write_tensors(folder / STATE, tensors, {"facts": json.dumps(facts)})


def read_facts(folder: Path) -> dict[str, Any] | None:
    """The facts of a saved state; None without one."""
    path = folder / STATE
    try:
        facts: dict[str, Any] = json.loads(atomic.read_metadata(path)["facts"])
        return facts
    except FileNotFoundError:
        return None
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ResumeError(f"{path} is damaged ({error}): remove the file to start afresh") from error


def load_state(folder: Path, modules: Mapping[str, nn.Module], optimizer: torch.optim.Optimizer) -> None:
    """The inverse of `save_state`, into modules and an optimiser of the same sizes."""
    tensors = atomic.read_tensors(folder / STATE)
    for name, module in modules.items():
        module.load_state_dict(_below(tensors, name))
    entries: dict[int, dict[str, Tensor]] = {}
    for key, value in _below(tensors, "optimizer").items():
        index, slot = key.split(".", 1)
        entries.setdefault(int(index), {})[slot] = value
    optimizer.load_state_dict({"state": entries, "param_groups": optimizer.state_dict()["param_groups"]})


def _below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k[len(prefix) + 1 :]: v for k, v in tensors.items() if k.startswith(prefix + ".")}


def check_same_run(folder: Path, want: Mapping[str, Any], have: Mapping[str, Any]) -> None:
    """ResumeError naming the first part of the identity that differs."""
    for key, value in want.items():
        if have.get(key) != value:
            raise ResumeError(
                f"{folder} holds another run: {_difference(key, have.get(key), value)}. "
                "Choose another folder, or resume=false to start afresh"
            )


def _difference(key: str, have: Any, want: Any) -> str:
    if isinstance(have, dict) and isinstance(want, dict):
        for name in {**have, **want}:
            if have.get(name) != want.get(name):
                return f"{key}.{name} was {have.get(name)!r} and is now {want.get(name)!r}"
    return f"{key} was {have!r} and is now {want!r}"
