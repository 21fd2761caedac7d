"""The fork as a task."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import gymnasium

from envs.fork.environment import Fork, record_fork_episode
from mac_policy.demonstrations import Card, Scripted, TaskData
from mac_policy.tasks import Task
from mac_policy.tasks.task import Environment

if TYPE_CHECKING:
    from mac_policy.operators.dims import OperatorDims
    from mac_policy.operators.operator import Operator


@dataclass(frozen=True)
class ForkTask(Task):
    """The two-dimensional teaching task: pass an obstacle on either side. Policies train on it in seconds."""

    name: str = "fork"

    modules = ("envs.fork",)
    film_fps = 4
    goals = ("goal",)

    @property
    def data(self) -> TaskData:
        return fork_data()

    def make(self, size: int | None = None) -> Environment:
        drawn = None if size is None else "rgb_array"
        return gymnasium.make("mac_policy/fork-v0", render_mode=drawn, disable_env_checker=True)

    def expert(self, environments: Sequence[Environment], dims: OperatorDims) -> Operator:
        from envs.fork.operator import ForkExpert

        return ForkExpert(dims, len(environments))


@functools.cache
def fork_data() -> TaskData:
    """The fork's scripted demonstrations; nothing is published."""
    env = Fork()
    card = Card(
        description="A boat passes an obstacle on either side; both thrusters must agree.",
        algorithm="scripted demonstrator with a random side",
        author=("mac_policy contributors",),
        env_spec=gymnasium.spec("mac_policy/fork-v0"),
        action_space=env.action_space,
        observation_space=env.observation_space,
    )
    scripted = Scripted(record_fork_episode, episodes=300, card=card, modules=("envs.fork.environment",))
    return TaskData(name="fork", action_space=env.action_space, scripted=scripted)
