"""The environment of a task, and its scripted expert, as plain data that a measurement hands to its workers."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium

from envs.kitchen.goals import GOAL_SETS, MAX_EPISODE_STEPS, goal_tasks
from mac_policy.common.checks import check_choice, is_number
from mac_policy.common.digest import code_sha256
from mac_policy.operators.dims import OperatorDims
from mac_policy.operators.operator import Operator

TASKS = (*GOAL_SETS, "fork")
VIEWS = {30: "qpos", 59: "full"}
"""A kitchen policy's number of observations tells which view it was trained on."""


@dataclass(frozen=True)
class TaskEnvironment:
    """Makes a task's environment.

    >>> TaskEnvironment.seen_by("kitchen-mixed", observation_dim=30)().action_space.shape
    (9,)

    observation, start, joint_std: of the kitchen, as `envs.kitchen.environment.make` has them
    size: in pixels, of environments that are filmed
    """

    task: str
    observation: str = "qpos"
    start: str = "official"
    joint_std: float = 0.05
    size: int | None = None

    @staticmethod
    def seen_by(task: str, observation_dim: int, start: str = "official", joint_std: float = 0.05) -> TaskEnvironment:
        """The environment with the view of a policy of so many observations."""
        return TaskEnvironment(task, VIEWS.get(observation_dim, "qpos"), start, joint_std)

    def __post_init__(self) -> None:
        check_choice("task with an environment", self.task, TASKS)
        check_choice("kitchen start", self.start, ("official", "randomised"))
        if not is_number(self.joint_std) or not self.joint_std >= 0:
            raise ValueError(f"task.joint_std must be a number of radians >= 0, got {self.joint_std!r}")
        if self.task == "fork" and self.start != "official":
            raise ValueError(f"task.start={self.start}: the fork knows only its official start, which varies already")

    def __call__(self) -> gymnasium.Env[Any, Any]:
        if self.task == "fork":
            drawn = None if self.size is None else "rgb_array"
            return gymnasium.make("mac_policy/fork-v0", render_mode=drawn, disable_env_checker=True)
        from envs.kitchen.environment import make

        if self.size is None:
            return make(self.task, self.observation, self.start, self.joint_std)
        from envs.kitchen.film import QuickRender

        return QuickRender(
            make(
                self.task,
                self.observation,
                self.start,
                self.joint_std,
                render_mode="rgb_array",
                width=self.size,
                height=self.size,
            )
        )

    @property
    def goals(self) -> tuple[str, ...]:
        """What can be completed."""
        return ("goal",) if self.task == "fork" else goal_tasks(self.task)

    @property
    def best(self) -> float:
        """The highest reward an episode can bring."""
        return float(len(self.goals))

    @property
    def film_every(self) -> int:
        """Steps from one frame of a film to the next: the kitchen's steps are many, and slow to draw."""
        return 1 if self.task == "fork" else 3

    @property
    def film_fps(self) -> int:
        return 4 if self.task == "fork" else 10

    def identity(self) -> dict[str, Any]:
        if self.task == "fork":
            return {"task": self.task, "code": _code("fork/*.py")}
        code = _code("kitchen/*.py")
        found = {
            "code": code,
            "task": self.task,
            "observation": self.observation,
            "start": self.start,
            "steps": MAX_EPISODE_STEPS,
        }
        return found | ({"joint_std": self.joint_std} if self.start == "randomised" else {})


@dataclass(frozen=True)
class TaskExpert:
    """Makes a task's scripted expert for environments."""

    task: str

    def __call__(self, environments: Sequence[gymnasium.Env[Any, Any]], dims: OperatorDims) -> Operator:
        if self.task == "fork":
            from envs.fork.operator import ForkExpert

            return ForkExpert(dims, len(environments))
        from envs.kitchen.operator import ExpertOperator

        return ExpertOperator(environments, dims, self.task)

    def identity(self) -> dict[str, Any]:
        return {"task": self.task, "code": _code("fork/*.py" if self.task == "fork" else "kitchen/*.py")}


@functools.lru_cache
def _code(pattern: str) -> str:
    return code_sha256(Path(__file__).parent.glob(pattern))
