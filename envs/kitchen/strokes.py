"""How each goal of the kitchen is completed, as data: the approach, the contact and the path of the hand.

Every goal takes one stroke: travel to a point in front of the object, reach to the contact, close the hand or keep it
closed, follow a path that leads the object's joint by a small margin, release, back off. Units are metres in the
world's frame and radians; the hand points along +y at yaw 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import mujoco
import numpy as np
from gymnasium_robotics.envs.franka_kitchen.kitchen_env import BONUS_THRESH, OBS_ELEMENT_GOALS, OBS_ELEMENT_INDICES

from envs.kitchen.control import Pose, Vector, tool_centre
from envs.kitchen.goals import (
    BOTTOM_BURNER,
    HINGE_CABINET,
    KETTLE,
    LIGHT_SWITCH,
    MICROWAVE,
    SLIDE_CABINET,
    TOP_BURNER,
)
from envs.kitchen.stroke import Stroke, plan_stroke

KETTLE_X, KETTLE_Y = 23, 24  # columns of qpos
HINGE_DOOR, DOOR_AJAR = 21, 0.3
BURNER_X = -0.23  # where the kettle belongs


def is_done(task: str, data: mujoco.MjData) -> bool:
    """Whether the goal's joints are as near to their targets as the environment requires."""
    return bool(np.linalg.norm(data.qpos[OBS_ELEMENT_INDICES[task]] - OBS_ELEMENT_GOALS[task]) < BONUS_THRESH)


def hand_direction(yaw: float, pitch: float = 0.0) -> Vector:
    """(3,) where the fingers point."""
    return np.array([-np.sin(yaw) * np.cos(pitch), np.cos(yaw) * np.cos(pitch), np.sin(pitch)])


@dataclass(frozen=True)
class Door:
    """A door with an upright handle: grasp it deep and pull it along its arc, leading by an angle."""

    joint: int
    """Column of qpos."""
    handle: tuple[float, float, float]
    axis: tuple[float, float]
    opening: float
    """+1 or -1: the sign of the joint's opening direction."""
    stop: tuple[float, float]
    """Range the opening angle is drawn from."""
    yaw: float
    reach: float
    depth: float
    """How far the fingers go past the handle's centre: a shallower grasp slips off."""
    lead: float
    height_play: float

    def stroke(self, data: mujoco.MjData, rng: np.random.Generator) -> Stroke:
        stop = rng.uniform(*self.stop)
        height = self.handle[2] + rng.uniform(-self.height_play, self.height_play)
        ahead = hand_direction(self.yaw)

        def grip_at(angle: float) -> Pose:
            cos, sin = np.cos(angle), np.sin(angle)
            x, y = self.handle[0] - self.axis[0], self.handle[1] - self.axis[1]
            grip = np.array([self.axis[0] + cos * x - sin * y, self.axis[1] + sin * x + cos * y, height])
            return Pose(grip + self.depth * ahead, self.yaw)

        return plan_stroke(
            data,
            rng,
            contact=lambda now: grip_at(float(now.qpos[self.joint])),
            path=lambda now: grip_at(float(now.qpos[self.joint]) + self.opening * self.lead),
            progress=lambda now: self.opening * float(now.qpos[self.joint]),
            stop=stop,
            grasp=True,
            ahead=ahead,
            reach=self.depth + self.reach,
            back_off=0.11,
        )


@dataclass(frozen=True)
class Slider:
    """A handle that is pushed sideways along x by the closed fingers."""

    joint: int
    start: tuple[float, float, float]
    """Where the fingers touch down beside the handle."""
    reach: float
    follows: bool
    """Whether the joint is a length along x, so that the touch-down moves with it."""
    stop: tuple[float, float]
    """Range the end of the joint's motion is drawn from, in the joint's unit, as a size."""
    lead: float
    """Metres of x that the fingers head for beyond the touch-down, signed."""
    height_play: float
    pitch: float = 0.0

    def stroke(self, data: mujoco.MjData, rng: np.random.Generator) -> Stroke:
        stop = rng.uniform(*self.stop)
        touch = np.array(self.start)
        touch[2] += rng.uniform(-self.height_play, self.height_play)
        ahead = hand_direction(0.0, self.pitch)

        def along(distance: float) -> Pose:
            return Pose(touch + np.array([distance, 0.0, 0.0]), pitch=self.pitch)

        def slid(now: mujoco.MjData) -> float:
            return float(now.qpos[self.joint]) if self.follows else 0.0

        return plan_stroke(
            data,
            rng,
            contact=lambda now: along(slid(now)),
            path=lambda now: along(slid(now) + self.lead),
            progress=lambda now: abs(float(now.qpos[self.joint])),
            stop=stop,
            ahead=ahead,
            reach=self.reach,
            back_off=0.10,
        )


@dataclass(frozen=True)
class Knob:
    """A bar that turns about +y: the closed finger, left of its top end, pushes that end round to the right."""

    joint: int
    centre: tuple[float, float, float]
    radius: float = 0.037
    beside: float = 0.045
    """How far left of the bar the finger comes in."""
    reach: float = 0.09
    lead: tuple[float, float] = (0.055, 0.075)
    stop: tuple[float, float] = (0.74, 0.92)
    pitch: float = -0.3
    pitch_under_door: float = 0.2
    """With the hinged door open above the knobs, the hand comes from below it."""

    def stroke(self, data: mujoco.MjData, rng: np.random.Generator) -> Stroke:
        stop, lead = rng.uniform(*self.stop), rng.uniform(*self.lead)
        centre = np.array(self.centre)
        pitch = self.pitch_under_door if float(data.qpos[HINGE_DOOR]) > DOOR_AJAR else self.pitch
        ahead = hand_direction(0.0, pitch)

        def beside_top(now: mujoco.MjData, distance: float) -> Pose:
            angle = -float(now.qpos[self.joint])
            along = np.array([np.sin(angle), 0.0, np.cos(angle)])
            across = np.array([np.cos(angle), 0.0, -np.sin(angle)])
            return Pose(centre + self.radius * along + distance * across, pitch=pitch)

        return plan_stroke(
            data,
            rng,
            contact=lambda now: beside_top(now, -self.beside),
            path=lambda now: beside_top(now, lead),
            progress=lambda now: -float(now.qpos[self.joint]),
            stop=stop,
            ahead=ahead,
            reach=self.reach,
            back_off=0.10,
        )


class KettleHold(NamedTuple):
    """One way to hold the kettle."""

    sideways: float
    """x of the hold from the kettle's centre."""
    height: float
    behind: float
    """How far behind the kettle's centre the hand is while it pushes."""
    grasp: bool
    yaw: float = 0.0
    pitch: float = 0.0


@dataclass(frozen=True)
class Kettle:
    """The kettle: pushed away over the stove, by one of its posts or by its base."""

    holds: tuple[KettleHold, ...]
    reach: float = 0.13
    stop: tuple[float, float] = (0.57, 0.66)
    lead: float = 0.05

    def stroke(self, data: mujoco.MjData, rng: np.random.Generator) -> Stroke:
        hold = self.holds[rng.integers(len(self.holds))]
        stop = rng.uniform(*self.stop)
        ahead = hand_direction(hold.yaw, hold.pitch)

        def behind(x: float, y: float) -> Pose:
            return Pose(np.array([x + hold.sideways, y - hold.behind, hold.height]), hold.yaw, hold.pitch)

        def contact(now: mujoco.MjData) -> Pose:
            return behind(float(now.qpos[KETTLE_X]), float(now.qpos[KETTLE_Y]))

        return plan_stroke(
            data,
            rng,
            contact=contact,
            path=lambda now: behind(BURNER_X, stop + self.lead),
            progress=lambda now: float(now.qpos[KETTLE_Y]),
            stop=stop,
            grasp=hold.grasp,
            ahead=ahead,
            reach=self.reach,
            back_off=0.17,
        )


MANOEUVRES: dict[str, Door | Slider | Knob | Kettle] = {
    MICROWAVE: Door(
        joint=22, handle=(-0.642, 0.493, 1.792), axis=(-1.128, 0.455), opening=-1.0, stop=(0.64, 0.82),
        yaw=0.3, reach=0.14, depth=0.03, lead=0.12, height_play=0.05,
    ),
    HINGE_CABINET: Door(
        joint=21, handle=(-0.526, 0.583, 2.6), axis=(-0.224, 0.71), opening=1.0, stop=(1.24, 1.42),
        yaw=0.0, reach=0.12, depth=0.032, lead=0.18, height_play=0.03,
    ),
    KETTLE: Kettle(
        holds=(
            KettleHold(-0.092, 1.79, -0.025, True, yaw=-0.1, pitch=-0.5),
            KettleHold(0.092, 1.79, -0.015, True, yaw=-0.6, pitch=-0.4),
            KettleHold(-0.02, 1.70, 0.155, False, yaw=-0.3, pitch=-0.3),
        )
    ),
    LIGHT_SWITCH: Slider(
        joint=17, start=(-0.305, 0.634, 2.276), reach=0.085, follows=False, stop=(0.6, 0.68),
        lead=-0.18, height_play=0.01, pitch=-0.3,
    ),
    SLIDE_CABINET: Slider(
        joint=19, start=(-0.175, 0.605, 2.58), reach=0.085, follows=True, stop=(0.25, 0.37),
        lead=0.12, height_play=0.09,
    ),
    BOTTOM_BURNER: Knob(joint=11, centre=(-0.256, 0.645, 2.226)),
    TOP_BURNER: Knob(joint=15, centre=(-0.256, 0.645, 2.340)),
}  # fmt: skip


def distances_to(data: mujoco.MjData, tasks: Sequence[str]) -> dict[str, float]:
    """Metres from the tool to where it would touch the object of each goal."""
    tool, strokes = tool_centre(data), {task: MANOEUVRES[task].stroke(data, np.random.default_rng(0)) for task in tasks}
    return {task: float(np.linalg.norm(stroke.contact(data).position - tool)) for task, stroke in strokes.items()}
