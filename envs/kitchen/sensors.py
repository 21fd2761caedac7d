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


class QuickReading:
    """Reads the robot's joints as `FrankaRobot._get_obs` does, bit for bit, without looking them up by name.

    The look-ups take eight percent of the time of a step.
    """

    def __init__(self, robot: Any) -> None:
        joints = [robot.model.joint(name) for name in robot.model_names.joint_names if name.startswith("robot")]
        self._positions = np.concatenate([joint.qposadr for joint in joints])
        self._velocities = np.concatenate([joint.dofadr for joint in joints])
        self._robot = robot

    def __call__(self) -> NDArray[np.float64]:
        """(18,) noisy positions and velocities; the positions are also what the next target starts from."""
        robot = self._robot
        positions, velocities = robot.data.qpos[self._positions], robot.data.qvel[self._velocities]
        for values, amplitude in ((positions, robot.robot_pos_noise_amp), (velocities, robot.robot_vel_noise_amp)):
            noise = robot.np_random.uniform(low=-1.0, high=1.0, size=values.shape)
            values += robot.robot_noise_ratio * amplitude[:9] * noise
        robot._last_robot_qpos = positions
        return np.concatenate((positions, velocities))


KITCHENS: dict[str, type[FrankaKitchen]] = {"stock": FrankaKitchen, "d4rl": D4RLKitchen}
"""The simulators by the name of their sensors."""
