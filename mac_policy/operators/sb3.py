"""A stable-baselines3 model as the operator, trained on all action dims or on the held ones alone."""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mac_policy.common.checks import check_choice
from mac_policy.operators.dims import OperatorDims
from mac_policy.operators.file_kind import FileKind
from mac_policy.operators.operator import HoldingOperator, Operator
from mac_policy.operators.registry import Resources, register_operator

ALGORITHMS = ("A2C", "DDPG", "PPO", "SAC", "TD3")


class SB3Operator(HoldingOperator):
    """Commands the deterministic actions of a model, or of its checkpoint, a .zip.

    Checkpoints of stable-baselines3 hold pickles: load only those you trust. A model with as many action dims as are
    held commands them in their listed order.

    >>> SB3Operator("runs/operator/ppo.zip", OperatorDims.parse([0], 2))   # doctest: +SKIP
    """

    def __init__(self, model: Any, dims: OperatorDims, batch: int = 1, algorithm: str | None = None) -> None:
        """algorithm: PPO, SAC, ...; by default read from the checkpoint"""
        super().__init__(dims, batch)
        self.model = load_model(model, algorithm) if isinstance(model, (str, Path)) else model
        shape = getattr(self.model.action_space, "shape", None)
        held = None if dims.fixed is None else len(dims.fixed)
        if shape not in ((dims.action_dim,), (held,)):
            reduced = "" if held is None else f" or of the {held} that are held"
            raise ValueError(
                f"the model commands {self.model.action_space}; an operator needs a Box of all "
                f"{dims.action_dim} action dims{reduced}"
            )
        self._columns = slice(None) if shape == (dims.action_dim,) else list(dims.fixed or ())
        self._state: Any = None
        self._starts = np.ones(batch, bool)

    def begin(self, rows: NDArray[np.bool_], seeds: NDArray[np.int64]) -> None:
        super().begin(rows, seeds)
        self._starts = self._starts | rows

    def values(self, observations: NDArray[np.float32]) -> NDArray[np.floating]:
        actions, self._state = self.model.predict(
            observations, state=self._state, episode_start=self._starts, deterministic=True
        )
        self._starts = np.zeros(self.batch, bool)
        values = np.zeros((self.batch, self.action_dim), np.float32)
        values[:, self._columns] = actions
        return values


@register_operator
@dataclass(frozen=True)
class SB3(FileKind):
    """A stable-baselines3 model of all action dims, or of the held ones.

    path: its checkpoint, a .zip
    """

    name: ClassVar[str] = "sb3"

    def make(self, dims: OperatorDims, batch: int, resources: Resources) -> Operator:
        return SB3Operator(self.path, dims, batch)

    def describe(self) -> str:
        return f"a stable-baselines3 model ({self.path})"


def load_model(path: str | Path, algorithm: str | None = None) -> Any:
    """Load a stable-baselines3 model from its checkpoint."""
    import stable_baselines3

    found = Path(path) if Path(path).exists() else Path(f"{path}.zip")
    if not found.exists():
        raise ValueError(f"no stable-baselines3 checkpoint at {path}: train one with examples/learn_operator.py")
    name = algorithm_of(found) if algorithm is None else check_choice("algorithm", algorithm, ALGORITHMS)
    return getattr(stable_baselines3, name).load(found, device="cpu")


def algorithm_of(path: Path) -> str:
    """The algorithm that wrote a checkpoint, told by the settings that it alone has."""
    try:
        with zipfile.ZipFile(path) as archive:
            data = json.loads(archive.read("data"))
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise ValueError(f"{path} is no stable-baselines3 checkpoint: {error}") from error
    for key, name in (("clip_range", "PPO"), ("ent_coef_optimizer", "SAC"), ("target_entropy", "SAC")):
        if key in data:
            return name
    if "policy_delay" in data:
        return "TD3" if data["policy_delay"] > 1 else "DDPG"
    module = str(data.get("policy_class", {}).get("__module__"))
    if module == "stable_baselines3.common.policies" and "normalize_advantage" in data:
        return "A2C"
    raise ValueError(f"{path} has a policy of {module}, which is none of {', '.join(ALGORITHMS)}")
