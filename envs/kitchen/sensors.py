"""What the kitchen's sensors read: with the noise of FrankaKitchen-v1, or with that of D4RL's kitchen."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium_robotics.envs.franka_kitchen import KitchenEnv as FrankaKitchen
from gymnasium_robotics.envs.franka_kitchen.kitchen_env import OBS_ELEMENT_INDICES
from numpy.typing import NDArray

D4RL_NOISE = 0.1 * np.repeat([0.1, 0.005, 0.0005, 0.005, 0.1, 0.005, 0.1, 0.005], [9, 2, 6, 3, 3, 3, 3, 1])
"""(30,): half the width of the uniform noise on each position, rad or m."""


class D4RLKitchen(FrankaKitchen):
    """FrankaKitchen-v1 with the sensors of D4RL's kitchen-*-v0, whose physics it has.

    All 30 positions are read once a step. The policy, the control law (`target = reading + 0.16 * action`) and the
    judge of completed goals see the same reading. The noise of the robot's positions is ten times that of
    FrankaKitchen-v1. Velocities, which D4RL does not show, keep the noise of FrankaKitchen-v1.
    """

    def _get_obs(self, robot_obs: NDArray[np.float64]) -> dict[str, Any]:
        obs: dict[str, Any] = super()._get_obs(robot_obs)
        robot = self.robot_env
        reading = self.data.qpos + D4RL_NOISE * robot.np_random.uniform(-1.0, 1.0, len(D4RL_NOISE))
        robot._last_robot_qpos = reading[:9].copy()
        velocities = obs["observation"][9 + len(reading) :]
        obs["observation"] = np.concatenate([reading[:9], robot_obs[9:], reading[9:], velocities])
        obs["achieved_goal"] = {goal: reading[OBS_ELEMENT_INDICES[goal]] for goal in self.goal}
        return obs


KITCHENS: dict[str, type[FrankaKitchen]] = {"stock": FrankaKitchen, "d4rl": D4RLKitchen}
"""The simulators by the name of their sensors."""
