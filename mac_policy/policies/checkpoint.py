"""Saves and loads a policy as a folder: config.json (plain JSON) and model.safetensors (weights and normaliser)."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mac_policy.common import files as atomic
from mac_policy.common import folders
from mac_policy.common.checks import check_choice, check_instance, check_mapping, nearest_hint
from mac_policy.common.digest import file_sha256
from mac_policy.common.files import CheckpointError
from mac_policy.common.folders import CONFIG, SCHEMA, WEIGHTS, read_weights
from mac_policy.common.provenance import versions
from mac_policy.policies.mac import MAC
from mac_policy.policies.policy import Policy
from mac_policy.policies.registry import POLICIES, make_policy
from mac_policy.policies.spaces import Spaces, SpacesRecord, check_same, spaces_from_json, spaces_to_json

FITTED_LATER = ("widened.", "widened_labels.", "plan_margin", "plan_floor", "honest_ready")
HONEST = ("honest_network.", *FITTED_LATER)
RULES = "rules."
"""Tensors that a policy may lack: what they correct is then left as it is."""
BEST = "best.safetensors"


@dataclass(frozen=True)
class PolicyConfig(folders.Config):
    """config.json of a policy."""

    policy: str
    settings: Mapping[str, Any]
    spaces: SpacesRecord
    dataset: Mapping[str, Any]
    versions: Mapping[str, Any]
    training: Mapping[str, Any]


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
    check_instance("policy", policy, Policy)
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
    weights: 'last', or 'best' for the weights with the best validation loss; what is fitted at the end of a training
        (spreads of densities, rules of beliefs, tests of plans) is that of the last weights

    >>> policy = load_policy("runs/kitchen-mixed/mac-s0")             # needs a trained policy   # doctest: +SKIP
    >>> policy.act(observation, command, mask, deterministic=True)    # doctest: +SKIP
    """
    folder, target = Path(folder), check_device(device)
    if spaces is not None:
        check_instance("spaces", spaces, Spaces)
    config = read_config(folder)
    path = folder / {"last": WEIGHTS, "best": BEST}[check_choice("weights", weights, ("last", "best"))]
    policy = _build(path, config, {} if settings is None else check_mapping("settings", settings))
    if spaces is not None:
        check_same(policy.spaces, spaces)
    largest = folders.largest_file(policy)
    tensors = read_weights(path, largest)
    if path.name == BEST and isinstance(policy, MAC) and (folder / WEIGHTS).exists():
        last = read_weights(folder / WEIGHTS, largest)  # densities and beliefs are fitted once, at the end
        tensors |= {key: tensor for key, tensor in last.items() if key.startswith((*HONEST, RULES))}
    _fill(policy, tensors, path)
    return policy.to(target).eval()


def check_device(device: Any) -> torch.device:
    """The device of this name; ValueError where there is none such here."""
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (AssertionError, ImportError, NotImplementedError, RuntimeError, TypeError) as error:
        text = str(error).partition("\n")[0]
        raise ValueError(f"device must be one of this machine, such as 'cpu', got {device!r}: {text}") from error
    if found.type == "meta":
        raise ValueError("device must be one that holds numbers, such as 'cpu', got 'meta'")
    return found


def read_config(folder: str | Path) -> dict[str, Any]:
    """config.json of a policy folder, checked against its schema."""
    return folders.read_config(Path(folder), "a policy folder", PolicyConfig)[1]


def read_spaces(path: Path, config: Mapping[str, Any]) -> Spaces:
    """The spaces of a config.json; CheckpointError naming the file where they are none."""
    try:
        return spaces_from_json(config["spaces"])
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: {error}") from error


def _build(weights: Path, config: Mapping[str, Any], settings: Mapping[str, Any]) -> Policy:
    """The policy with these settings; CheckpointError where it needs more numbers than the file of weights holds."""
    path, kind = weights.with_name(CONFIG), config["policy"]
    if kind not in POLICIES:  # what a file names is never imported
        raise CheckpointError(
            f"{path}: unknown policy {kind!r}; registered are {', '.join(POLICIES)}"
            f"{nearest_hint(kind, POLICIES)}. A kind of your own must be registered before its policies are loaded: "
            "import its module and call mac_policy.register_policy(YourPolicy)"
        )
    try:
        with folders.limited(folders.largest_model(weights), f"a {kind} policy with these settings, by its weights,"):
            return make_policy(kind, read_spaces(path, config), {**config["settings"], **settings})
    except CheckpointError:
        raise
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: {error}") from error


def _fill(policy: Policy, tensors: Mapping[str, Tensor], path: Path) -> None:
    want = policy.state_dict()
    tensors = _as_now(tensors, policy.settings.horizon)
    folders.fill(policy, {name: want[name] for name in want if name.startswith(FITTED_LATER)} | tensors, path)


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
