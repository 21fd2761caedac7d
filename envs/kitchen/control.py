"""The control law of the robot arm: from a target pose of the tool to the nine velocities of an action.

The tool centre point (TCP) lies 3 cm beyond the site `end_effector`, between the fingertips. Positions are
world metres, angles radians. At yaw = pitch = 0 the hand points along world +y and the fingers open along x.
"""

from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

TCP_OFFSET = 0.03
DAMPING = 0.03
ORIENTATION_WEIGHT = 0.25
MAX_JOINT_STEP = 0.07  # rad a step; about what a saturated action moves a joint
# An action of 1 commands 0.16 rad; in one step a joint covers only this share of its command.
ACTION_SCALE = 0.16
COVERED = np.array([0.5] * 4 + [0.617] * 3)
STIFFNESS = np.array([870.0] * 4 + [120.0] * 3)
# The model's limits, except that the controller cannot hold joint 6 below 0.
JOINT_LOW = np.array([-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, 0.0, -2.8973])
JOINT_HIGH = np.array([2.8973, 1.7628, 2.8973, -0.4, 2.8973, 2.1127, 2.8973])
HOME = np.array([0.148, -1.7628, 1.844, -2.477, 0.26, 0.713, 1.595])
HAND = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])  # columns: the site's axes


class Pose(NamedTuple):
    """Where the tool should be."""

    position: Vector
    """(3,) TCP in world metres."""
    yaw: float = 0.0
    """Turn of the hand about the world's z."""
    pitch: float = 0.0
    """Tilt of the hand about its own sideways axis; positive points the fingers up."""


def hand_rotation(yaw: float, pitch: float) -> Vector:
    """(3, 3) rotation of the site `end_effector` at a yaw and pitch."""
    cy, sy, cp, sp = np.cos(yaw), np.sin(yaw), np.cos(pitch), np.sin(pitch)
    turn = np.array([[cy, -sy, 0.0], [sy, cy, 0.0], [0.0, 0.0, 1.0]])
    tilt = np.array([[1.0, 0.0, 0.0], [0.0, cp, -sp], [0.0, sp, cp]])
    return turn @ tilt @ HAND


def shorten(vector: Vector, longest: float) -> Vector:
    """`vector`, scaled down if it is longer than `longest`."""
    length = float(np.sqrt(vector @ vector))
    return vector if length <= longest else vector * (longest / length)


def tool_centre(data: mujoco.MjData) -> Vector:
    """(3,) the tool centre point."""
    site = data.site("end_effector")
    return site.xpos + TCP_OFFSET * site.xmat.reshape(3, 3)[:, 2]


def cross(first: Vector, second: Vector) -> Vector:
    """`np.cross` of the rows of two (..., 3), bit for bit, without its checks, which take most of its time."""
    found = np.empty(first.shape)
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        found[..., i] = first[..., j] * second[..., k] - first[..., k] * second[..., j]
    return found


class RobotArm:
    """Kinematics of the robot arm in a model: reads the live state, solves on a scratch copy."""

    def __init__(self, model: mujoco.MjModel) -> None:
        self.model = model
        self._site = model.site("end_effector").id
        self._scratch = mujoco.MjData(model)
        self._jacobian = np.zeros((6, model.nv))

    def tcp(self, data: mujoco.MjData) -> Vector:
        """(3,) the tool centre point."""
        rotation = data.site_xmat[self._site].reshape(3, 3)
        return data.site_xpos[self._site] + TCP_OFFSET * rotation[:, 2]

    def pose_step(self, data: mujoco.MjData, goal: Pose, longest: float, gain: float = 1.0) -> Vector:
        """(7,) the joint step that brings the TCP up to `longest` metres towards the goal."""
        q = data.qpos[:7]
        rotation = data.site_xmat[self._site].reshape(3, 3)
        tcp = data.site_xpos[self._site] + TCP_OFFSET * rotation[:, 2]
        wanted = hand_rotation(goal.yaw, goal.pitch)
        turn = 0.5 * cross(rotation.T, wanted.T).sum(axis=0)
        error = np.concatenate((shorten(gain * (goal.position - tcp), longest), shorten(turn, 0.3)))
        mujoco.mj_jac(
            self.model,
            data,
            self._jacobian[:3],
            self._jacobian[3:],
            tcp,
            int(self.model.site_bodyid[self._site]),
        )
        return _damped_least_squares(self._jacobian[:, :7], error, q)

    def solve(self, goal: Pose, start: Vector = HOME, iterations: int = 80) -> tuple[Vector, float]:
        """((7,) joint angles near `start` that reach the goal, the distance that remains in metres)."""
        data = self._scratch
        data.qpos[:7] = start
        for _ in range(iterations):
            mujoco.mj_kinematics(self.model, data)
            mujoco.mj_comPos(self.model, data)
            step = self.pose_step(data, goal, longest=0.1)
            data.qpos[:7] = np.clip(data.qpos[:7] + step, JOINT_LOW, JOINT_HIGH)
            if float(np.abs(step).max()) < 1e-3:
                break
        mujoco.mj_kinematics(self.model, data)
        return data.qpos[:7].copy(), float(np.linalg.norm(goal.position - self.tcp(data)))


def _damped_least_squares(jacobian: Vector, error: Vector, q: Vector) -> Vector:
    """(7,) the damped solution of J dq = error, orientation weighted, home posture in the null space.

    Joints that the solution would drive beyond a limit are frozen and the rest solved again.
    """
    weight = np.array([1.0] * 3 + [ORIENTATION_WEIGHT] * 3)
    error = weight * error
    free = np.ones(7, dtype=bool)
    homing = 0.05 * (HOME - q)
    for _ in range(3):
        reduced = weight[:, None] * jacobian * free
        inverse = reduced.T @ np.linalg.inv(reduced @ reduced.T + DAMPING**2 * np.eye(6))
        step = inverse @ (error - reduced @ homing) + homing * free
        ahead = q + step
        stuck = free & (((ahead < JOINT_LOW) & (step < 0)) | ((ahead > JOINT_HIGH) & (step > 0)))
        if not stuck.any():
            break
        free &= ~stuck
    return step * free


def action_for(data: mujoco.MjData, joint_step: Vector, gripper: float) -> NDArray[np.float32]:
    """(9,) the action that moves the joints by `joint_step` against gravity; gripper +1 opens, -1 closes."""
    step = joint_step * min(1.0, MAX_JOINT_STEP / max(float(np.abs(joint_step).max()), 1e-9))
    arm = (step / COVERED + data.qfrc_bias[:7] / STIFFNESS) / ACTION_SCALE
    return np.clip(np.concatenate((arm, [gripper, gripper])), -1.0, 1.0).astype(np.float32)
