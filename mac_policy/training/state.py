"""The state that a run is resumed from: one safetensors file with a checksum, and the one saved before it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import torch
from torch import Tensor, nn

from mac_policy.common import files as atomic
from mac_policy.common.checks import check_number
from mac_policy.common.files import CheckpointError
from mac_policy.common.folders import fitting, put
from mac_policy.common.reading import checked, parse_json
from mac_policy.common.settings import Natural, NonNegative, Settings

Number = Annotated[Any, check_number]
"""A number; without a validation, the best loss is infinite, and a validation loss may be NaN."""
STATE, BEFORE = "state.safetensors", "state-before.safetensors"


class ResumeError(ValueError):
    """A run that cannot be resumed from its folder; the message says why."""


@dataclass(frozen=True)
class Facts(Settings):
    """The plain values of a state.

    step, seconds, best, stale, running, rows: of the loop
    fingerprint: the run's identity
    """

    step: Natural
    seconds: NonNegative
    best: Number
    stale: Natural
    running: Number
    rows: tuple[Mapping[str, Number], ...]
    fingerprint: Mapping[str, Any]

    def __post_init__(self) -> None:
        super().__post_init__()
        for place, row in enumerate(self.rows):
            if lost := [name for name in ("step", "loss") if name not in row]:
                raise ValueError(f"rows[{place}] lacks {lost[0]!r}")


class State(NamedTuple):
    """A state that has been read."""

    path: Path
    facts: Facts
    tensors: Mapping[str, Tensor]


def save_state(folder: Path, modules: Mapping[str, nn.Module], optimizer: torch.optim.Optimizer, facts: Facts) -> None:
    """Save the weights of the modules, the optimiser's moments, and the facts. The last state is kept until the next
    one is whole."""
    tensors = {f"{name}.{k}": v for name, module in modules.items() for k, v in module.state_dict().items()}
    for index, entry in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{key}": value for key, value in entry.items()}
    if (folder / STATE).exists():
        (folder / STATE).replace(folder / BEFORE)
    atomic.write_tensors(folder / STATE, tensors, {"facts": json.dumps(asdict(facts))})


def read_state(folder: Path) -> State | None:
    """The last state, or the one before it where the last is damaged; None without any."""
    found = [folder / name for name in (STATE, BEFORE) if (folder / name).exists()]
    damage = ""
    for path in found:
        try:
            return _read(path)
        except ResumeError as error:
            damage = damage or str(error)
    if damage:
        names = " and ".join(path.name for path in found)
        raise ResumeError(f"{damage}: remove {names} from {folder}, or give resume=false, to start afresh")
    return None


def _read(path: Path) -> State:
    try:
        tensors, notes = atomic.read_tensors(path)
    except CheckpointError as error:
        raise ResumeError(str(error)) from error
    if "facts" not in notes:
        raise ResumeError(f"{path} is damaged: it has no facts of a run")
    facts = parse_json(notes["facts"], f"{path}: facts", ResumeError, infinite=True)
    return State(path, checked(Facts, facts, f"{path} is damaged: facts", ResumeError), tensors)


def load_state(state: State, modules: Mapping[str, nn.Module], optimizer: torch.optim.Optimizer) -> None:
    """Put a state into modules and an optimiser of the same sizes; ResumeError where it is not of such."""
    try:
        weights = {name: _of_module(name, module, state) for name, module in modules.items()}
        moments = _of_optimizer(optimizer, state)
    except CheckpointError as error:
        raise ResumeError(f"{error}: give resume=false to start afresh") from error
    for name, module in modules.items():
        try:
            put(module, weights[name], state.path)
        except CheckpointError as error:
            raise ResumeError(f"{error}: give resume=false to start afresh") from error
    optimizer.load_state_dict({"state": moments, "param_groups": optimizer.state_dict()["param_groups"]})


def _of_module(prefix: str, module: nn.Module, state: State) -> dict[str, Tensor]:
    found, want = _below(state.tensors, prefix), module.state_dict()
    if different := sorted(found.keys() ^ want.keys()):
        raise CheckpointError(f"{state.path} is of another model: {prefix}.{different[0]} is in one of them alone")
    return {name: _exact(f"{prefix}.{name}", tensor, want[name], state.path) for name, tensor in found.items()}


def _of_optimizer(optimizer: torch.optim.Optimizer, state: State) -> dict[int, dict[str, Tensor]]:
    """The moments by the number of their parameter, which are those of one optimiser after `facts.step` steps."""
    entries: dict[int, dict[str, Tensor]] = {}
    for key, value in _below(state.tensors, "optimizer").items():
        number, _, slot = key.partition(".")
        if not number.isdecimal():
            raise CheckpointError(f"{state.path} has a moment of no parameter: optimizer.{key}")
        entries.setdefault(int(number), {})[slot] = value
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    slots = {slot for entry in entries.values() for slot in entry}
    steps = {float(entry["step"]) for entry in entries.values() if "step" in entry and entry["step"].numel() == 1}
    if state.facts.step and (not entries or max(steps, default=0) != state.facts.step):
        raise CheckpointError(f"{state.path} is not of step {state.facts.step}: the optimiser made another number")
    for index, entry in entries.items():
        if index >= len(parameters) or entry.keys() != slots:
            raise CheckpointError(f"{state.path} lacks moments of parameter {index}, or has those of another model")
        for slot, value in entry.items():
            want = torch.zeros(()) if slot == "step" else parameters[index]
            entry[slot] = _exact(f"optimizer.{index}.{slot}", value, want.detach(), state.path)
            if slot == "step" and not 1 <= float(entry[slot]) <= state.facts.step:
                raise CheckpointError(f"{state.path}: optimizer.{index}.step is not from 1 to {state.facts.step}")
            if slot == "exp_avg_sq" and bool((entry[slot] < 0).any()):
                raise CheckpointError(f"{state.path}: optimizer.{index}.{slot} is below zero")
    return entries


def _exact(name: str, tensor: Tensor, want: Tensor, path: Path) -> Tensor:
    if tensor.dtype != want.dtype:
        raise CheckpointError(f"{path}: {name!r} has the type {tensor.dtype}, the model has {want.dtype}")
    return fitting(name, tensor, want, path)


def _below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k[len(prefix) + 1 :]: v for k, v in tensors.items() if k.startswith(prefix + ".")}


def check_same_run(folder: Path, want: Mapping[str, Any], have: Mapping[str, Any]) -> None:
    """ResumeError naming the first part of the identity that differs, or that one of both runs does not have."""
    for key in {**want, **have}:
        if have.get(key) != want.get(key):
            raise ResumeError(
                f"{folder} holds another run: {_difference(key, have.get(key), want.get(key))}. "
                "Choose another folder, or resume=false to start afresh"
            )


def _difference(key: str, have: Any, want: Any) -> str:
    if isinstance(have, dict) and isinstance(want, dict):
        for name in {**have, **want}:
            if have.get(name) != want.get(name):
                return f"{key}.{name} was {have.get(name)!r} and is now {want.get(name)!r}"
    return f"{key} was {have!r} and is now {want!r}"
