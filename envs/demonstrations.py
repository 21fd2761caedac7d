"""Where each task's demonstrations are published, how they are read, and who demonstrates when none are.

>>> demos = load_demonstrations("kitchen-mixed")                    # the first place that has them
>>> demos = load_demonstrations("kitchen-mixed", source="human")    # people's, or an error saying how to get them
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium import spaces

import envs  # noqa: F401  (registers the ids that the cards name)
from envs.fork.environment import Fork, record_fork_episode
from envs.kitchen.goals import (
    BOTTOM_BURNER,
    GOAL_SETS,
    HINGE_CABINET,
    KETTLE,
    LIGHT_SWITCH,
    MICROWAVE,
    SLIDE_CABINET,
    TOP_BURNER,
)
from envs.kitchen.orders import ORDERS
from mac_policy.common.checks import check_choice
from mac_policy.demonstrations.demonstrations import Demonstrations
from mac_policy.demonstrations.episode import Episode, Floats
from mac_policy.demonstrations.minari_store import DEMONSTRATOR_KEY
from mac_policy.demonstrations.minari_write import Card
from mac_policy.demonstrations.resolve import load
from mac_policy.demonstrations.task_data import OfficialFile, Scripted, TaskData

D4RL_URL = "http://rail.eecs.berkeley.edu/datasets/offline_rl/kitchen/"
AUTHOR = "mac_policy contributors"

# D4RL's 60 columns: 0-8 robot, 9-29 objects, 30-59 the goal. FrankaKitchen-v1's 59: 0-8 robot positions, 9-17
# robot velocities, 18-38 objects, 39-58 object velocities. Both have the 30 positions.
VIEWS = {
    "qpos": {30: np.arange(30), 60: np.arange(30), 59: np.r_[0:9, 18:39]},
    "full": {59: np.arange(59)},
}

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


# The environment's own rule, as data, so that reading demonstrations does not load a simulator: the columns of
# the 30 positions that a task is judged by, and where they should be.
GOALS: dict[str, tuple[slice, tuple[float, ...]]] = {
    BOTTOM_BURNER: (slice(11, 13), (-0.88, -0.01)),
    TOP_BURNER: (slice(15, 17), (-0.92, -0.01)),
    LIGHT_SWITCH: (slice(17, 19), (-0.69, -0.05)),
    SLIDE_CABINET: (slice(19, 20), (0.37,)),
    HINGE_CABINET: (slice(20, 22), (0.0, 1.45)),
    MICROWAVE: (slice(22, 23), (-0.75,)),
    KETTLE: (slice(23, 30), (-0.23, 0.75, 1.62, 0.99, 0.0, 0.0, -0.06)),
}
NEAR = 0.3


def kitchen_completions(observations: Floats) -> dict[str, int]:
    """The steps at which tasks were done in an episode's observations (T+1, 30 or 59), in that order.

    A task is done when its joints come within `NEAR` of their goal.
    """
    positions = observations[:, VIEWS["qpos"][observations.shape[1]]]
    first: dict[str, int] = {}
    for task, (columns, goal) in GOALS.items():
        distance = np.linalg.norm(positions[:, columns] - np.array(goal), axis=1)
        done = np.flatnonzero(distance < NEAR)
        if len(done):
            first[task] = int(done[0])
    return dict(sorted(first.items(), key=lambda item: item[1]))


KITCHEN_DEMONSTRATOR = (
    "kitchen/control",
    "kitchen/demonstrator",
    "kitchen/environment",
    "kitchen/orders",
    "kitchen/strokes",
    "kitchen/start",
    "kitchen/stroke",
    "kitchen/goals",
)


def _demonstrator(*modules: str) -> dict[str, str]:
    """What tells one version of a demonstrator from another: the sha256 of its code, settings and all."""
    files = (Path(__file__).parent / f"{module}.py" for module in modules)
    return {DEMONSTRATOR_KEY: hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()}


def _record_kitchen(task: str, order: str = "default", *, seed: int, index: int) -> Episode:
    from envs.kitchen.demonstrator import record_episode

    # All 59 values are stored, so that the set serves both views.
    return record_episode(task, seed=seed, index=index, order=order, observation="full")


def _kitchen(name: str) -> TaskData:
    file_name, sha256 = OFFICIAL[name]
    box = spaces.Box(-1.0, 1.0, (9,), np.float32)
    card = Card(
        description=f"Scripted demonstrations of {name} ({', '.join(GOAL_SETS[name])}) in FrankaKitchen-v1. "
        "Labels are the demonstrator's clean actions; infos/executed_actions are those executed, with noise.",
        algorithm="scripted demonstrator with DART-like collection noise",
        author=(AUTHOR,),
        requirements=("gymnasium-robotics>=1.4", "mujoco>=3.3,<3.12"),
        env_spec=gymnasium.spec(f"mac_policy/{name}-v0"),
        action_space=box,
        extra=_demonstrator(*KITCHEN_DEMONSTRATOR),
    )
    return TaskData(
        name=name,
        action_space=box,
        views=VIEWS,
        minari_id=f"D4RL/kitchen/{name.removeprefix('kitchen-')}-v2",
        minari_keys=("observation",),
        published_kind="human",
        official=OfficialFile(f"{name}-v0", file_name, D4RL_URL + file_name, sha256),
        scripted=Scripted(partial(_record_kitchen, name), card=card),
        completions=kitchen_completions,
    )


def _fork() -> TaskData:
    env = Fork()
    card = Card(
        description="A boat passes an obstacle on either side; both thrusters must agree.",
        algorithm="scripted demonstrator with a random side",
        author=(AUTHOR,),
        env_spec=gymnasium.spec("mac_policy/fork-v0"),
        action_space=env.action_space,
        observation_space=env.observation_space,
        extra=_demonstrator("fork/environment"),
    )
    return TaskData(
        name="fork",
        action_space=env.action_space,
        scripted=Scripted(record_fork_episode, episodes=300, card=card),
    )


TASKS: dict[str, TaskData] = {**{name: _kitchen(name) for name in OFFICIAL}, "fork": _fork()}


def task_data(name: str, dataset: str | None = None, order: str = "default") -> TaskData:
    """The data side of a task: a name of `TASKS`, or 'minari' with the id of any Minari data set.

    order: of the tasks within a scripted kitchen demonstration, see `envs.kitchen.orders`.
    """
    check_choice("order", order, ORDERS)
    if name == "minari":
        if not dataset:
            raise ValueError("task=minari needs dataset=<Minari id>, for example dataset=D4RL/pen/human-v2")
        return TaskData(name=dataset, minari_id=dataset)
    task = TASKS[check_choice("task", name, (*TASKS, "minari"))]
    return task if order == "default" else _in_order(task, order)


def _in_order(task: TaskData, order: str) -> TaskData:
    if task.scripted is None or task.name not in GOAL_SETS:
        raise ValueError(f"order={order} is for the kitchen's scripted demonstrations, {task.name} has one order alone")
    scripted = replace(task.scripted, record=partial(_record_kitchen, task.name, order))
    return replace(task, scripted=scripted, scripted_variant=order)


def load_demonstrations(
    name: str,
    *,
    dataset: str | None = None,
    source: str = "auto",
    path: str | Path | None = None,
    observation: str | None = "qpos",
    outside: str = "clip",
    episodes: int | None = None,
    order: str = "default",
) -> Demonstrations:
    """The demonstrations of a task; see `mac_policy.demonstrations.resolve.load` for source, path and outside.

    episodes: how many scripted demonstrations; None takes what is stored, or records the task's own number.
    order: of the tasks within a scripted kitchen demonstration: 'default', 'canonical' or 'random'.
    """
    task = task_data(name, dataset, order)
    if order != "default" and source != "scripted":
        raise ValueError(f"order={order} is for scripted demonstrations: give source=scripted, not {source}")
    view = observation if task.views else None
    return load(task, source=source, path=path, observation=view, outside=outside, episodes=episodes)
