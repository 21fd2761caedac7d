"""The kitchen as tasks: one for each set of goals that demonstrations are published for."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces

from envs.kitchen.goals import GOAL_SETS, MAX_EPISODE_STEPS, VIEWS, goal_tasks, kitchen_completions
from mac_policy.common.actions import Actions
from mac_policy.common.settings import NonNegative, choice
from mac_policy.demonstrations import Card, Episode, OfficialFile, Scripted, TaskData
from mac_policy.tasks import Task
from mac_policy.tasks.task import Environment

if TYPE_CHECKING:
    from mac_policy.operators.dims import OperatorDims
    from mac_policy.operators.operator import Operator

D4RL_URL = "http://rail.eecs.berkeley.edu/datasets/offline_rl/kitchen/"
OFFICIAL = {
    "kitchen-complete": (
        "mini_kitchen_microwave_kettle_light_slider-v0.hdf5",
        "cd797c38cd52dfbe3f960cef73935cc724847abd189e47a703a7a2315ed60a81",
    ),
    "kitchen-mixed": (
        "kitchen_microwave_kettle_bottomburner_light-v0.hdf5",
        "a30382a50278fdaea2e2d88e5f2836a95bcf9b581d252617872fd6537302721b",
    ),
    "kitchen-partial": (
        "kitchen_microwave_kettle_light_slider-v0.hdf5",
        "57bfd9c5fe88a7cf702bbaf8b7cd800d30cd869e7f73416007238d26cd859800",
    ),
}
SCALE = 0.16
"""Change of position that one unit of an action commands, in rad or m: two rad/s for the 0.08 s of a step."""
ACTIONS = Actions(
    names=(*(f"joint{i}" for i in range(1, 8)), "left_finger", "right_finger"),
    units=("rad",) * 7 + ("m",) * 2,
    meaning="relative",
    observed=tuple(range(9)),
    scale=(SCALE,),
)
"""An action sends each joint to its reading + SCALE * action."""
DEMONSTRATOR = ("control", "demonstrator", "detours", "environment", "goals", "sensors", "stroke", "strokes")
ACTION_SPACE = spaces.Box(-1.0, 1.0, (9,), np.float32)
SIZE_OF_VIEW = {30: "qpos", 59: "full"}


@dataclass(frozen=True)
class KitchenTask(Task):
    """The Franka kitchen with a set of goals.

    observation: qpos (30 positions, which every source has) or full (59 values with velocities, not in D4RL files)
    start: official (the environment's one start) or randomised (see `envs.kitchen.environment`)
    joint_std: rad, of a randomised start
    sensors: stock (the noise of FrankaKitchen-v1) or d4rl (the noise of D4RL's kitchen), also of scripted
        demonstrations
    """

    name: Annotated[str, choice(OFFICIAL, "task")]
    observation: Annotated[str, choice(VIEWS)] = "qpos"
    start: Literal["official", "randomised"] = "official"
    joint_std: NonNegative = 0.05
    sensors: Literal["stock", "d4rl"] = "stock"

    modules = ("envs.kitchen",)
    film_every = 3  # the steps are many, and slow to draw

    @property
    def data(self) -> TaskData:
        return kitchen_data(self.name, self.sensors)

    @property
    def view(self) -> str:
        return self.observation

    @property
    def actions(self) -> Actions:
        return ACTIONS

    @property
    def goals(self) -> tuple[str, ...]:
        return goal_tasks(self.name)

    def seen_by(self, observation_dim: int) -> KitchenTask:
        return self.with_options(observation=SIZE_OF_VIEW.get(observation_dim, "qpos"))

    def make(self, size: int | None = None) -> Environment:
        return self.made(size)

    def made(self, size: int | None, **more: Any) -> Environment:
        """The environment with more options than the kitchens share."""
        from envs.kitchen.environment import make

        drawn = {} if size is None else {"render_mode": "rgb_array", "width": size, "height": size, "shadows": False}
        return make(self.name, self.observation, self.start, self.joint_std, self.sensors, **drawn, **more)

    def reset_options(self, episode: Episode) -> dict[str, Any] | None:
        """Start from the first observed positions at rest: a replay drifts from what was recorded."""
        columns = VIEWS["qpos"].get(episode.observations.shape[1])
        return None if columns is None else {"qpos": episode.observations[0, columns]}

    def expert(self, environments: Sequence[Environment], dims: OperatorDims) -> Operator:
        from envs.kitchen.operator import ExpertOperator

        return ExpertOperator(environments, dims, self.name)

    def describe(self) -> str:
        moved = "" if self.start == "official" else f" (joints by {self.joint_std:g} rad)"
        return f"{super().describe()}, {self.start} start{moved}, {self.sensors} sensors"

    def identity(self) -> dict[str, Any]:
        found = super().identity() | {"steps": MAX_EPISODE_STEPS}
        if self.start == "official":
            del found["joint_std"]
        return found


@functools.cache
def kitchen_data(name: str, sensors: str = "stock") -> TaskData:
    """Where the demonstrations of a set of goals are published, and how scripted ones are recorded."""
    return TaskData(
        name=name,
        action_space=ACTION_SPACE,
        views=VIEWS,
        minari_id=f"D4RL/kitchen/{name.removeprefix('kitchen-')}-v2",
        minari_keys=("observation",),
        published_kind="human",
        official=official_file(name),
        scripted=scripted_kitchen(name, sensors),
        variant=variant_of(sensors),
        completions=kitchen_completions,
    )


def official_file(name: str) -> OfficialFile:
    """The file of human demonstrations that D4RL publishes for a set of goals."""
    file_name, sha256 = OFFICIAL[name]
    return OfficialFile(f"{name}-v0", file_name, D4RL_URL + file_name, sha256)


def variant_of(sensors: str) -> str:
    """The word for the sensors in the name of a scripted data set."""
    return "" if sensors == "stock" else f"{sensors}-sensors"


def scripted_kitchen(name: str, sensors: str, recording: Mapping[str, Any] | None = None, **more: Any) -> Scripted:
    """The scripted demonstrations of a set of goals; recording: arguments of `record_episode`; more: other fields of
    `Scripted`."""
    recorder = partial(record, name, sensors=sensors, **(recording or {}))
    spec = gymnasium.spec(f"mac_policy/{name}-v0")
    spec = dataclasses.replace(spec, kwargs={**spec.kwargs, "sensors": sensors}) if sensors != "stock" else spec
    card = Card(
        description=f"Scripted demonstrations of {name} ({', '.join(GOAL_SETS[name])}) in FrankaKitchen-v1. "
        "Labels are the demonstrator's clean actions; infos/executed_actions are those executed, with noise"
        f"{' and detours' if recording and recording.get('detours') else ''}.",
        algorithm="scripted demonstrator with DART-like collection noise",
        author=("mac_policy contributors",),
        requirements=("gymnasium-robotics>=1.4", "mujoco>=3.3,<3.12"),
        env_spec=spec,
        action_space=ACTION_SPACE,
    )
    return Scripted(
        recorder,
        card=card,
        orders={order: partial(recorder, order) for order in ("random", "canonical")},
        modules=tuple(f"envs.kitchen.{module}" for module in DEMONSTRATOR),
        **more,
    )


def record(task: str, order: str = "default", *, seed: int, index: int, **recording: Any) -> Episode:
    """Scripted demonstration `index`. All 59 values are stored, so that the set serves both views."""
    from envs.kitchen.demonstrator import record_episode

    return record_episode(task, seed=seed, index=index, order=order, observation="full", **recording)


KITCHENS = tuple(KitchenTask(name) for name in OFFICIAL)
