"""A trained model of rows as a folder: config.json (plain JSON), model.safetensors, and measurements of the model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mac_policy.common import files as atomic
from mac_policy.common import folders
from mac_policy.common.checks import check_choice
from mac_policy.common.files import CheckpointError
from mac_policy.common.folders import CONFIG, SCHEMA, WEIGHTS
from mac_policy.common.provenance import versions, write_json
from mac_policy.common.reading import checked, parse_json
from mac_policy.common.settings import NonNegative, Settings
from mac_policy.rows.model import RowModel
from mac_policy.rows.spec import ModelSpec, build


@dataclass(frozen=True)
class ArmConfig(folders.Config):
    """config.json of a trained arm."""

    spec: ModelSpec
    dataset: Mapping[str, Any]
    versions: Mapping[str, Any]
    training: Mapping[str, Any]
    identity: Mapping[str, Any]


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
    """config.json of a trained arm's folder, checked against its schema."""
    return folders.read_config(Path(folder), "the folder of a trained arm", ArmConfig)[1]


def load(folder: str | Path, *, device: str | torch.device = "cpu") -> tuple[RowModel, ModelSpec]:
    """A trained arm in evaluation mode. Neither its data set nor the configuration of its training is needed."""
    folder = Path(folder)
    spec = folders.read_config(folder, "the folder of a trained arm", ArmConfig)[0].spec
    path = folder / WEIGHTS
    try:
        with folders.limited(folders.largest_model(path), "the model of this spec, by its weights,"):
            model = build(spec)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{folder / CONFIG}: {error}") from error
    folders.fill(model, folders.read_weights(path, folders.largest_file(model)), path)
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


@dataclass(frozen=True)
class KeptFacts(Settings):
    """The plain values of stored measurements."""

    facts: Mapping[str, Any]
    seconds: NonNegative


def read_kept(path: Path, facts: Mapping[str, Any], sizes: Mapping[str, int] | None = None) -> Kept | None:
    """The measurements with the same facts; None, so that they are made again, if the file is missing or damaged or has
    other facts.

    sizes: of log-likelihoods, how many values in double precision each has
    """
    try:
        tensors, notes = atomic.read_tensors(path)
        known = {name: parse_json(text, str(path)) for name, text in notes.items()}
        found = checked(KeptFacts, known, str(path))
    except (FileNotFoundError, ValueError):
        return None
    if found.facts != facts:
        return None
    right = sizes is None or all(tensor.dtype == torch.float64 for tensor in tensors.values())
    if not right or (sizes is not None and {name: tensor.numel() for name, tensor in tensors.items()} != sizes):
        return None
    return Kept(tensors, found.seconds)


def write_kept(path: Path, kept: Kept, facts: Mapping[str, Any]) -> None:
    """Write the measurements and their facts, plain JSON, in one atomic step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_tensors(path, kept.tensors, {"facts": json.dumps(facts), "seconds": json.dumps(kept.seconds)})
