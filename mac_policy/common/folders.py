"""Folders of trained models: config.json, plain JSON with a schema, and model.safetensors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError

from mac_policy.common import files
from mac_policy.common.files import CheckpointError

if TYPE_CHECKING:
    from torch import Tensor

CONFIG, WEIGHTS = "config.json", "model.safetensors"


def read_config(folder: Path, what: str, schema: int, keys: Sequence[str]) -> dict[str, Any]:
    """config.json of the folder of `what`, such as 'a TableModel'; CheckpointError without this schema and the keys."""
    path = folder / CONFIG
    try:
        config: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise CheckpointError(f"{folder} is not the folder of {what}: it holds no {CONFIG}") from error
    except ValueError as error:
        raise CheckpointError(f"{path} is not JSON: {error}") from error
    missing = [key for key in keys if not isinstance(config, dict) or key not in config]
    if missing:
        raise CheckpointError(f"{path} lacks the key {missing[0]!r}: is this the folder of {what}?")
    if config["schema"] != schema:
        raise CheckpointError(f"{path} has schema {config['schema']!r}; this version reads {schema}")
    return config


def read_weights(folder: Path) -> dict[str, Tensor]:
    """The tensors of model.safetensors. CheckpointError where they cannot be read."""
    try:
        return files.read_tensors(folder / WEIGHTS)
    except FileNotFoundError as error:
        raise CheckpointError(f"{folder} holds no {WEIGHTS}") from error
    except SafetensorError as error:
        raise CheckpointError(f"{folder / WEIGHTS} is truncated or damaged: {error}") from error
