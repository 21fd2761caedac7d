"""One stroke and its execution: travel, reach, close, move the object, release, back off."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from envs.kitchen.control import MAX_JOINT_STEP, Pose, RobotArm, Vector, action_for

FREE_SPEED = 1.3  # times the speed in contact
APPROACH_GAIN, REACH_GAIN = 2.5, 1.5  # above 1 the hand does not slow down before it arrives
NEAR_TRAVEL, NEAR_REACH, NEAR_EXIT = 0.05, 0.018, 0.035  # metres from a waypoint that count as there
SLIPPED = 0.085  # metres between the hand and where it should hold the object
STALLED_AFTER = 10  # steps without the object moving
FREE_WAYPOINT_STD = 0.015


@dataclass(frozen=True)
class Stroke:
    """One attempt at one goal."""

    approach: Pose
    """Where the joint-space travel ends."""
    contact: Callable[[mujoco.MjData], Pose]
    """The pose in contact with the object, from the live state."""
    path: Callable[[mujoco.MjData], Pose]
    """The pose to aim at while the object moves, from the live state."""
    progress: Callable[[mujoco.MjData], float]
    """How far the object has moved, in its joint's unit."""
    stop: float
    """The progress at which the stroke ends."""
    back_off: Vector
    """(3,) the displacement with which the hand leaves, from the end of the stroke."""
    grasp: bool = False
    """Whether the hand comes open and closes on the object, or stays closed and pushes."""


def plan_stroke(
    data: mujoco.MjData,
    rng: np.random.Generator,
    *,
    contact: Callable[[mujoco.MjData], Pose],
    ahead: Vector,
    reach: float,
    back_off: float,
    **rest: Any,
) -> Stroke:
    """A stroke whose travel ends `reach` metres before the present contact, up to a random displacement.

    ahead: (3,) where the fingers point; back_off: metres that the hand leaves against it; rest: fields of Stroke
    """
    start, free = contact(data), rng.normal(0.0, FREE_WAYPOINT_STD, 3)
    approach = start._replace(position=start.position - reach * ahead + free)
    return Stroke(approach=approach, contact=contact, back_off=-back_off * ahead, **rest)


class Stage(Enum):
    """The parts of a stroke in their order, with the steps after which each one ends at the latest."""

    TRAVEL = ("travel", 50)
    REACH = ("reach", 14)
    CLOSE = ("close", 3)
    MOVE = ("move", 45)
    RELEASE = ("release", 2)
    BACK_OFF = ("back off", 6)

    @property
    def limit(self) -> int:
        return self.value[1]


class StrokeRunner:
    """Turns a stroke into actions, step by step, from the live state."""

    def __init__(self, arm: RobotArm, stroke: Stroke, speed: float) -> None:
        """`speed`: metres of tool motion a step."""
        self._arm, self._stroke, self._speed = arm, stroke, speed
        self._travel_to, _ = arm.solve(stroke.approach)
        self._rest = (stage for stage in Stage if stroke.grasp or stage not in (Stage.CLOSE, Stage.RELEASE))
        self.stage: Stage | None = next(self._rest)
        self._age = 0

    def action(self, data: mujoco.MjData) -> NDArray[np.float32] | None:
        """(9,) the next action; None after the end of the stroke."""
        while self.stage is not None and self._over(data):
            self._advance(data)
        if self.stage is None:
            return None
        self._age += 1
        return action_for(data, self._joint_step(data), self.gripper)

    def break_off(self, data: mujoco.MjData) -> None:
        """Go on with the release of the object and the way back, without them before the object is reached."""
        if self.stage is Stage.TRAVEL:
            self.stage = None
        while self.stage not in (Stage.RELEASE, Stage.BACK_OFF, None):
            self._advance(data)

    @property
    def gripper(self) -> float:
        """+1 to open, -1 to close."""
        closed = not self._stroke.grasp or self.stage in (Stage.CLOSE, Stage.MOVE)
        return -1.0 if closed else 1.0

    def _advance(self, data: mujoco.MjData) -> None:
        self.stage = next(self._rest, None)
        self._age = 0
        self._best, self._best_age = -np.inf, 0
        if self.stage is Stage.BACK_OFF:
            here = self._arm.tcp(data)
            self._exit = self._stroke.contact(data)._replace(position=here + self._stroke.back_off)

    def _over(self, data: mujoco.MjData) -> bool:
        if self._age >= self.stage.limit:
            return True
        match self.stage:
            case Stage.TRAVEL:
                return self._distance(data, self._stroke.approach) < NEAR_TRAVEL
            case Stage.REACH:
                return self._distance(data, self._stroke.contact(data)) < NEAR_REACH
            case Stage.MOVE:
                done = self._stroke.progress(data) > self._stroke.stop
                return done or self._slipped(data) or self._stalled(data)
            case Stage.BACK_OFF:
                return self._distance(data, self._exit) < NEAR_EXIT
        return False

    def _slipped(self, data: mujoco.MjData) -> bool:
        """Whether the hand has lost the object that it grasped."""
        return self._stroke.grasp and self._distance(data, self._stroke.contact(data)) > SLIPPED

    def _stalled(self, data: mujoco.MjData) -> bool:
        progress = self._stroke.progress(data)
        if progress > self._best + 0.01:
            self._best, self._best_age = progress, self._age
        return self._age - self._best_age >= STALLED_AFTER

    def _distance(self, data: mujoco.MjData, pose: Pose) -> float:
        return float(np.linalg.norm(self._arm.tcp(data) - pose.position))

    def _joint_step(self, data: mujoco.MjData) -> Vector:
        stroke, speed = self._stroke, self._speed
        match self.stage:
            case Stage.TRAVEL:
                longest = MAX_JOINT_STEP * min(1.0, speed / 0.045)
                step = APPROACH_GAIN * (self._travel_to - data.qpos[:7])
                return step * min(1.0, longest / max(float(np.abs(step).max()), 1e-9))
            case Stage.MOVE:
                return self._arm.pose_step(data, stroke.path(data), speed)
            case Stage.BACK_OFF:
                return self._arm.pose_step(data, self._exit, FREE_SPEED * speed, APPROACH_GAIN)
        return self._arm.pose_step(data, stroke.contact(data), speed, REACH_GAIN)
