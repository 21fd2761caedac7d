"""Detours of a recorded episode: the robot is carried towards another goal for a while."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from envs.kitchen import environment as kitchen
from envs.kitchen.control import RobotArm
from envs.kitchen.goals import CANONICAL_ORDER
from envs.kitchen.stroke import Stage, StrokeRunner
from envs.kitchen.strokes import MANOEUVRES

LENGTHS = (5, 21)
"""The range of the number of steps of a detour, drawn for each."""


class Detours:
    """What the robot executes in place of the demonstrator's action, now and then on its way to a goal.

    The recorded action stays the demonstrator's. It shows how to go on to the wanted goal from where a wrong guess of
    it leads, and keeps the place of the robot from telling what is wanted.
    """

    def __init__(self, chance: float, rng: np.random.Generator) -> None:
        """`chance`: that a detour begins at a step on the way to a goal"""
        if not 0 <= chance <= 1:
            raise ValueError(f"detours must be a probability from 0 to 1, got {chance!r}")
        self._chance, self._rng = chance, rng
        self._runner: StrokeRunner | None = None
        self._left = 0

    def action(
        self, approached: str | None, arm: RobotArm, speed: float, simulator: kitchen.KitchenEnv
    ) -> NDArray[np.float32] | None:
        """(9,) the action of the detour; None: there is none at this step.

        approached: the goal to which the demonstrator is on its way; None where it is at one
        """
        if self._runner is None and approached is not None and self._rng.random() < self._chance:
            others = [task for task in CANONICAL_ORDER if task != approached]
            other = others[int(self._rng.integers(len(others)))]
            self._runner = StrokeRunner(arm, MANOEUVRES[other].stroke(simulator.data, self._rng), speed)
            self._left = int(self._rng.integers(*LENGTHS))
        if self._runner is None:
            return None
        action = self._runner.action(simulator.data)
        self._left -= 1
        if self._left == 0 or self._runner.stage is not Stage.TRAVEL:
            self._runner = None
        return action
