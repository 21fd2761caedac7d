"""Targets: the positions that the kitchen's actions send the robot's nine joints to.

An action of the kitchen is relative to the last reading of the joints: target = reading + 0.16 * action, in radians
and, for the fingers, metres.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from envs.kitchen.environment import KitchenEnv
from envs.kitchen.task import SCALE

JOINTS = slice(0, 9)


def targets(observations: NDArray[np.floating], actions: NDArray[np.floating]) -> NDArray[np.float64]:
    """(..., obs) readings and (..., 9) actions -> (..., 9) targets."""
    return np.asarray(observations, np.float64)[..., JOINTS] + SCALE * np.asarray(actions, np.float64)


def towards(target: NDArray[np.floating], reading: NDArray[np.floating]) -> NDArray[np.float64]:
    """The action within [-1, 1] that sends the joints from a reading (9,) to a target (9,)."""
    return np.clip((np.asarray(target) - np.asarray(reading)) / SCALE, -1.0, 1.0)


class TargetReplay(NamedTuple):
    """What replaying an episode's targets gave."""

    completed: tuple[str, ...]
    residual: float
    """Mean distance between the simulated positions of the seven arm joints and the recorded readings, rad. With exact
    physics it is the noise of the recorded readings: 0.005 for uniform noise of +-0.01."""


def replay_targets(
    env: KitchenEnv, observations: NDArray[np.floating], actions: NDArray[np.floating], seed: int = 0
) -> TargetReplay:
    """Send the robot to the targets of an episode (T, obs), (T, 9), one a step, from the environment's own start.

    Replayed as actions, the same episode would add up the noise of all its readings.
    """
    env.reset(seed=seed)
    distances, completed = [], ()
    for target, reading in zip(targets(observations, actions), observations, strict=True):
        distances.append(np.abs(env.data.qpos[:7] - reading[:7]).mean())
        *_, terminated, _, info = env.step(towards(target, env.inner.robot_env._last_robot_qpos))
        completed = info["completed"]
        if terminated:
            break
    return TargetReplay(completed, float(np.mean(distances)))
