"""What the observations of the kitchen hold, and which goals they complete, as data: no simulator is loaded."""

from __future__ import annotations

import numpy as np

from envs.kitchen.goals import (
    BOTTOM_BURNER,
    HINGE_CABINET,
    KETTLE,
    LIGHT_SWITCH,
    MICROWAVE,
    SLIDE_CABINET,
    TOP_BURNER,
)
from mac_policy.demonstrations.episode import Floats

# D4RL's 60 columns: 0-8 robot, 9-29 objects, 30-59 the goal. FrankaKitchen-v1's 59: 0-8 robot positions, 9-17
# robot velocities, 18-38 objects, 39-58 object velocities. Both have the 30 positions.
VIEWS = {
    "qpos": {30: np.arange(30), 60: np.arange(30), 59: np.r_[0:9, 18:39]},
    "full": {59: np.arange(59)},
}
"""For each view and width of a source's observations the columns to keep."""

# The environment's own rule: the columns of the 30 positions that a goal is judged by, and their target values.
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
    """The step at which each goal was completed in an episode's observations (T+1, 30 or 59), in the order of steps.

    A goal is completed when its joints come within `NEAR` of their target values.
    """
    positions = observations[:, VIEWS["qpos"][observations.shape[1]]]
    first: dict[str, int] = {}
    for goal, (columns, target) in GOALS.items():
        distance = np.linalg.norm(positions[:, columns] - np.array(target), axis=1)
        done = np.flatnonzero(distance < NEAR)
        if len(done):
            first[goal] = int(done[0])
    return dict(sorted(first.items(), key=lambda item: item[1]))
