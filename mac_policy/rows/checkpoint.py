"""A trained model of rows as a folder: config.json (plain JSON), model.safetensors, and measurements of the model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from torch import Tensor

from mac_policy.common import files as atomic
from mac_policy.common import folders
from mac_policy.common.checks import check_choice
from mac_policy.common.files import CheckpointError
from mac_policy.common.folders import CONFIG, WEIGHTS
from mac_policy.common.provenance import versions, write_json
from mac_policy.rows.model import RowModel
from mac_policy.rows.spec import ModelSpec, build

SCHEMA = 1
KEYS = ("schema", "spec", "dataset", "versions", "training", "identity")


def save(
    model: RowModel,
    spec: ModelSpec,
    folder: Path,
    dataset: Mapping[str, Any],
    training: Mapping[str, Any],
    identity: Mapping[str, Any],
) -> None:
    """Write the folder, each file atomically; config.json last, so that the files it describes exist."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "schema": SCHEMA,
        "spec": asdict(spec),
        "dataset": dict(dataset),
        "versions": versions(),
        "training": dict(training),
        "identity": dict(identity),
    }
    atomic.write_tensors(folder / WEIGHTS, model.state_dict())
    write_json(folder / CONFIG, config)


def read_config(folder: str | Path) -> dict[str, Any]:
    """config.json of a trained arm's folder, with its schema and keys checked."""
    return folders.read_config(Path(folder), "a trained arm", SCHEMA, KEYS)


def load(folder: str | Path, *, device: str | torch.device = "cpu") -> tuple[RowModel, ModelSpec]:
    """A trained arm in evaluation mode. Neither its data set nor the configuration of its training is needed."""
    folder = Path(folder)
    config = read_config(folder)
    try:
        spec = ModelSpec(**{**config["spec"], "shape": tuple(config["spec"]["shape"])})
        model = build(spec)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{folder / CONFIG}: {error}") from error
    weights = folders.read_weights(folder)
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise CheckpointError(f"{folder / WEIGHTS} does not fit its {CONFIG}: {error}") from error
    return model.to(device).eval(), spec


def load_of_images(folder: Path) -> tuple[RowModel, ModelSpec]:
    """`load` for an arm of images; ValueError for any other arm."""
    model, spec = load(folder)
    if len(spec.shape) != 3 or spec.levels is None:
        raise ValueError(f"{folder} is no arm for images, but for rows of shape {spec.shape}")
    return model, spec


def load_arms(run: Path, seed: int, arms: Sequence[str] | None = None) -> dict[str, tuple[RowModel, ModelSpec]]:
    """The trained arms of a benchmark's folder by name, in the given order (by default all of them)."""
    there = [path.parent.name.removesuffix(f"-s{seed}") for path in sorted(run.glob(f"*-s{seed}/{CONFIG}"))]
    if not there:
        raise CheckpointError(f"{run} holds no trained arm of seed {seed}: no <arm>-s{seed}/{CONFIG}")
    return {check_choice("trained arm", arm, there): load(run / f"{arm}-s{seed}") for arm in arms or there}


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
