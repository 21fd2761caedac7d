"""Operators that a file holds: recorded actions, or a model of stable-baselines3."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mac_policy.common.arrays import opened_member, read_npy, read_npz
from mac_policy.common.checks import check_count
from mac_policy.common.digest import file_sha256
from mac_policy.common.reading import parse_json, reading
from mac_policy.operators.dims import OperatorDims
from mac_policy.operators.manners import Person
from mac_policy.operators.operator import Command, HoldingOperator, Operator, random_stream
from mac_policy.operators.registry import Resources, register_operator

ALGORITHMS = ("A2C", "DDPG", "PPO", "SAC", "TD3")


class ReplayOperator(HoldingOperator):
    """Replays recorded actions, one recording an episode, and lets go of its dims when the recording is over.

    The episode's seed draws the recording.
    """

    def __init__(
        self, actions: NDArray[np.floating] | Sequence[NDArray[np.floating]], dims: OperatorDims, batch: int = 1
    ) -> None:
        """actions: one recording (T, n), or a list of recordings"""
        super().__init__(dims, batch)
        single = isinstance(actions, np.ndarray) and actions.ndim == 2
        self.recordings = [_recording(r, dims.action_dim) for r in ([actions] if single else actions)]
        if not self.recordings:
            raise ValueError("a replay needs at least one recording of actions, got none")
        self._drawn = np.zeros(batch, np.int64)

    def begin(self, rows: NDArray[np.bool_], seeds: NDArray[np.int64]) -> None:
        super().begin(rows, seeds)
        for row in np.flatnonzero(rows):
            self._drawn[row] = random_stream("replay", seeds[row]).integers(len(self.recordings))

    def command(self, observations: NDArray[np.float32]) -> Command:
        ongoing = self._steps < [len(self.recordings[drawn]) for drawn in self._drawn]
        values, mask = super().command(observations)
        return Command(values, mask & ongoing[:, None])

    def values(self, observations: NDArray[np.float32]) -> NDArray[np.floating]:
        drawn = [self.recordings[i] for i in self._drawn]
        return np.stack([r[min(step, len(r) - 1)] for r, step in zip(drawn, self._steps.tolist(), strict=True)])


class SB3Operator(HoldingOperator):
    """Commands the deterministic actions of a model, or of its checkpoint, a .zip.

    Checkpoints of stable-baselines3 hold pickles: load only those you trust. A model with as many action dims as are
    held commands them in their listed order.

    >>> SB3Operator("runs/operator/ppo.zip", OperatorDims.parse([0], 2))   # doctest: +SKIP
    """

    def __init__(self, model: Any, dims: OperatorDims, batch: int = 1) -> None:
        super().__init__(dims, batch)
        self.model = load_model(model) if isinstance(model, (str, Path)) else model
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

    def values(self, observations: NDArray[np.float32]) -> NDArray[np.floating]:
        values = np.zeros((self.batch, self.action_dim), np.float32)
        values[:, self._columns], self._state = self.model.predict(
            observations, state=self._state, episode_start=self._steps == 0, deterministic=True
        )
        return values


@dataclass(frozen=True)
class FileKind(Person):
    """path: of the file"""

    path: Path | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.path is None and not self.needs:
            raise ValueError(f"operator={self.name} needs operator.path")
        if self.path is not None and not self.path.is_file():
            raise ValueError(f"operator.path={self.path}: there is no such file")

    def identity(self) -> dict[str, Any]:
        found = super().identity()
        path = found.pop("path")
        return found | ({} if path is None else {"file": file_sha256(Path(path))})


@register_operator
@dataclass(frozen=True)
class SB3(FileKind):
    """A stable-baselines3 model of all action dims, or of the held ones.

    path: its checkpoint, a .zip
    """

    name: ClassVar[str] = "sb3"
    description: ClassVar[str] = "a stable-baselines3 model ({0.path})"

    def commanding(self, dims: OperatorDims, batch: int, resources: Resources) -> Operator:
        return SB3Operator(self.path, dims, batch)


def read_recordings(path: str) -> list[NDArray[np.float32]]:
    """The recorded actions (T, n) of a .npy file, or those of a .npz file."""
    file = Path(path)
    try:
        arrays = list(read_npz(file).values()) if zipfile.is_zipfile(file) else [read_npy(file)]
        with reading(file, "array of numbers"), np.errstate(over="ignore"):
            found = [np.asarray(array, np.float32) for array in arrays]
        for recording in found:
            _check_finite(recording)
        return found
    except ValueError as error:
        raise ValueError(f"operator.path={path} holds no recorded actions (.npy or .npz): {error}") from error


def _recording(actions: ArrayLike, action_dim: int) -> NDArray[np.float32]:
    found = np.asarray(actions, np.float32)
    if found.ndim != 2 or found.shape[1] != action_dim or len(found) == 0:
        raise ValueError(f"recorded actions must be (T, {action_dim}) with T of at least 1, got {found.shape}")
    _check_finite(found)
    return found


def _check_finite(actions: NDArray[np.float32]) -> None:
    if not np.isfinite(actions).all():
        step = np.argwhere(~np.isfinite(np.atleast_1d(actions)))[0][0]
        raise ValueError(f"recorded actions hold NaN or infinity, first at step {step}")


def load_model(path: str | Path) -> Any:
    """Load a stable-baselines3 model from its checkpoint."""
    import stable_baselines3

    found = Path(path) if Path(path).exists() else Path(f"{path}.zip")
    if not found.exists():
        raise ValueError(f"no stable-baselines3 checkpoint at {path}: train one with examples/learn_operator.py")
    return getattr(stable_baselines3, algorithm_of(found)).load(found, device="cpu")


def algorithm_of(path: Path) -> str:
    """The algorithm that wrote a checkpoint, recognised by settings that no other algorithm has."""
    with reading(path, "stable-baselines3 checkpoint"), zipfile.ZipFile(path) as archive:
        with opened_member(archive, archive.getinfo("data"), path) as file:
            data = parse_json(file.read(), str(path))
        if not isinstance(data, dict):
            raise ValueError(f"{path} is no stable-baselines3 checkpoint: its settings are no JSON object")
    for key, name in (("clip_range", "PPO"), ("ent_coef_optimizer", "SAC"), ("target_entropy", "SAC")):
        if key in data:
            return name
    if "policy_delay" in data:
        delay = check_count(f"{path}: policy_delay", data["policy_delay"])
        return "TD3" if delay > 1 else "DDPG"
    policy_class = data.get("policy_class")
    module = str(policy_class.get("__module__")) if isinstance(policy_class, dict) else "no class"
    if module == "stable_baselines3.common.policies" and "normalize_advantage" in data:
        return "A2C"
    raise ValueError(f"{path} has a policy of {module}, which is none of {', '.join(ALGORITHMS)}")
