"""Saves and loads a policy as a folder: config.json (plain JSON) and model.safetensors (weights and normaliser)."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor

from mac_policy.common import files as atomic
from mac_policy.common.checks import check_choice, nearest_hint
from mac_policy.common.digest import file_sha256
from mac_policy.common.files import CheckpointError
from mac_policy.common.provenance import versions
from mac_policy.policies.mac import MAC
from mac_policy.policies.policy import Policy
from mac_policy.policies.registry import POLICIES, make_policy
from mac_policy.policies.spaces import Spaces, check_same, spaces_from_json, spaces_to_json

SCHEMA = 1
FITTED_LATER = ("widened.", "plan_margin", "plan_floor", "honest_ready")
HONEST = ("honest_network.", *FITTED_LATER)
"""Tensors that a policy may lack: what they correct is then left as it is."""
CONFIG, WEIGHTS, BEST = "config.json", "model.safetensors", "best.safetensors"
KEYS = ("schema", "policy", "settings", "spaces", "dataset", "versions", "training")


def save_policy(
    policy: Policy,
    folder: str | Path,
    dataset: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
) -> Path:
    """Write the policy's folder, each file atomically and config.json last.

    dataset: name, kind, sha256, episodes and steps of the training data; training: facts of the training

    >>> load_policy(save_policy(policy, "runs/mine")).act(obs)   # writes files   # doctest: +SKIP
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "schema": SCHEMA,
        "policy": policy.kind,
        "settings": asdict(policy.settings),
        "spaces": spaces_to_json(policy.spaces),
        "dataset": dict(dataset or {}),
        "versions": versions(),
        "training": dict(training or {}),
    }
    text = json.dumps(config, indent=2, allow_nan=False) + "\n"
    atomic.write_tensors(folder / WEIGHTS, policy.state_dict())
    atomic.write_text(folder / CONFIG, text)
    return folder


def load_policy(
    folder: str | Path,
    *,
    spaces: Spaces | None = None,
    device: str | torch.device = "cpu",
    settings: Mapping[str, Any] | None = None,
    weights: str = "last",
) -> Policy:
    """Load a trained policy from its folder. Neither Hydra nor the data set is needed.

    A kind of policy outside the package must be registered before (`register_policy`): what a file names is never
    imported.

    spaces: refuse a policy made for other spaces
    settings: settings of decoding to change without retraining
    weights: 'last', or 'best' for the weights with the best validation loss

    >>> policy = load_policy("runs/kitchen-mixed/mac-s0")             # needs a trained policy   # doctest: +SKIP
    >>> policy.act(observation, command, mask, deterministic=True)    # doctest: +SKIP
    """
    folder = Path(folder)
    config = read_config(folder)
    policy = _build(folder, config, settings or {})
    if spaces is not None:
        check_same(policy.spaces, spaces)
    name = {"last": WEIGHTS, "best": BEST}[check_choice("weights", weights, ("last", "best"))]
    tensors = _read_weights(folder / name)
    if name == BEST and isinstance(policy, MAC) and policy.settings.honest_steps and (folder / WEIGHTS).exists():
        last = _read_weights(folder / WEIGHTS)  # densities are fitted once, at the end
        tensors |= {key: tensor for key, tensor in last.items() if key.startswith(HONEST)}
    _fill(policy, tensors, folder / name)
    return policy.to(device).eval()


def read_config(folder: str | Path) -> dict[str, Any]:
    """config.json of a policy folder, checked for its schema and keys."""
    path = Path(folder) / CONFIG
    try:
        config = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise CheckpointError(f"{Path(folder)} is not a policy folder: it holds no {CONFIG}") from error
    except ValueError as error:
        raise CheckpointError(f"{path} is not JSON: {error}") from error
    if not isinstance(config, dict):
        raise CheckpointError(f"{path} must hold a JSON object, not {type(config).__name__}")
    if missing := [key for key in KEYS if key not in config]:
        raise CheckpointError(f"{path} lacks the key {missing[0]!r}")
    if unknown := [key for key in config if key not in KEYS]:
        raise CheckpointError(f"{path} has an unknown key {unknown[0]!r}; known: {', '.join(KEYS)}")
    if config["schema"] != SCHEMA:
        raise CheckpointError(f"{path} has schema {config['schema']!r}; this version reads {SCHEMA}")
    return config


def _build(folder: Path, config: Mapping[str, Any], settings: Mapping[str, Any]) -> Policy:
    kind = config["policy"]
    if not isinstance(kind, str) or kind not in POLICIES:  # what a file names is never imported
        raise CheckpointError(
            f"{folder / CONFIG}: unknown policy {kind!r}; registered are {', '.join(POLICIES)}"
            f"{nearest_hint(kind, POLICIES)}. A kind of your own must be registered before its policies are loaded: "
            "import its module and call mac_policy.register_policy(YourPolicy)"
        )
    try:
        return make_policy(kind, spaces_from_json(config["spaces"]), {**config["settings"], **settings})
    except KeyError as error:
        raise CheckpointError(f"{folder / CONFIG}: the spaces lack the key {error}") from error
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{folder / CONFIG}: {error}") from error


def _read_weights(path: Path) -> dict[str, Tensor]:
    try:
        return atomic.read_tensors(path)
    except FileNotFoundError as error:
        raise CheckpointError(f"{path.parent} holds no {path.name}") from error
    except SafetensorError as error:
        raise CheckpointError(f"{path} is truncated or damaged: {error}") from error


def _fill(policy: Policy, tensors: Mapping[str, Tensor], path: Path) -> None:
    want = policy.state_dict()
    tensors = _as_now(tensors, policy.settings.horizon)
    tensors = {name: want[name] for name in want if name.startswith(FITTED_LATER)} | tensors
    if missing := sorted(want.keys() - tensors.keys()):
        raise CheckpointError(f"{path} lacks the tensor {missing[0]!r} ({len(missing)} missing)")
    if unknown := sorted(tensors.keys() - want.keys()):
        raise CheckpointError(f"{path} holds a tensor this policy has not: {unknown[0]!r}")
    for name, tensor in tensors.items():
        if tensor.shape != want[name].shape:
            raise CheckpointError(
                f"{path}: {name!r} has shape {tuple(tensor.shape)}, the config asks for {tuple(want[name].shape)}"
            )
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise CheckpointError(f"{path}: {name!r} holds NaN or infinity")
    policy.load_state_dict(dict(tensors))


def _as_now(tensors: Mapping[str, Tensor], horizon: int) -> dict[str, Tensor]:
    """Tensors under the names that they have now: statistics of actions once belonged to the normaliser."""
    before = "normalizer.action_"
    return {
        f"variables.{name.removeprefix(before)}" if name.startswith(before) else name: tensor.repeat(horizon)
        if name.startswith(before)
        else tensor
        for name, tensor in tensors.items()
    }


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
