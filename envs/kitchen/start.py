"""Randomised starts of the kitchen: perturbed joints of the robot, objects moved within their play."""

import mujoco
import numpy as np
from numpy.typing import NDArray

# Largest distance of each object's joint from its official start (radians or metres), always inside its limits. All
# are far from completing a goal (a distance below 0.3), and closed doors look closed.
OBJECT_PLAY = {
    "knob_Joint_1": 0.03,
    "knob_Joint_2": 0.03,
    "knob_Joint_3": 0.03,
    "knob_Joint_4": 0.03,
    "light_switch": 0.02,
    "slide_cabinet": 0.005,
    "left_hinge_cabinet": 0.02,
    "right_hinge_cabinet": 0.02,
    "microwave": 0.02,
}
KETTLE_PLAY = 0.01  # metres, along x and y
ARM_JOINTS = tuple(f"robot:panda0_joint{i}" for i in range(1, 8))
JOINT6_LOW = 0.0  # the controller clips joint 6 to [0, 3.8]; below that it cannot hold the arm


def randomise_start(
    model: mujoco.MjModel, qpos: NDArray[np.float64], joint_std: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """A copy of `qpos` (30,) with the arm perturbed by N(0, joint_std) rad and the objects within their play."""
    qpos = qpos.copy()
    shifts = dict(zip(ARM_JOINTS, rng.normal(0.0, joint_std, len(ARM_JOINTS)), strict=True))
    shifts |= {name: rng.uniform(-play, play) for name, play in OBJECT_PLAY.items()}
    for name, shift in shifts.items():
        joint = model.joint(name)
        low, high = joint.range
        low = max(low, JOINT6_LOW) if name == ARM_JOINTS[5] else low
        qpos[joint.qposadr[0]] = np.clip(qpos[joint.qposadr[0]] + shift, low, high)
    kettle = model.joint("kettle").qposadr[0]
    qpos[kettle : kettle + 2] += rng.uniform(-KETTLE_PLAY, KETTLE_PLAY, 2)
    return qpos
