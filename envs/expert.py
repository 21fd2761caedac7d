"""The scripted demonstrator of the kitchen: any order of the seven tasks, one after the other.

It acts from the simulator's state, so it can record demonstrations (`record_episode`) or stand in for a person
with an intent of their own (`ScriptedExpert.act`, one step at a time).
"""

from collections import deque
from collections.abc import Sequence
from typing import Protocol

import mujoco
import numpy as np
from numpy.typing import NDArray

from envs.arm_control import Arm, action_for
from envs.kitchen_recipes import RECIPES, is_done
from envs.kitchen_stroke import StrokeRunner
from envs.kitchen_tasks import goal_tasks

SPEED = (0.036, 0.052)  # metres of tool motion a step, drawn once an episode


class Simulator(Protocol):
    """What the demonstrator reads: `env.unwrapped` of any kitchen is one."""

    @property
    def model(self) -> mujoco.MjModel: ...
    @property
    def data(self) -> mujoco.MjData: ...


class ScriptedExpert:
    """Does tasks in a given order and retries the ones it missed.

    >>> expert = ScriptedExpert()
    >>> expert.reset(["kettle", "microwave"], np.random.default_rng(0))
    >>> action = expert.act(observation, env.unwrapped)  # (9,) float32, until expert.finished
    """

    def __init__(self, attempts: int = 4) -> None:
        """`attempts`: how often a task is tried before it is left."""
        self.attempts = attempts
        self.finished = True
        self._arm: Arm | None = None
        self._stroke: StrokeRunner | None = None

    def reset(self, order: Sequence[str], rng: np.random.Generator) -> None:
        """Start an episode: the tasks in the order wanted, and the source of every variation."""
        self._queue = deque(goal_tasks(list(order)))
        self._tries = dict.fromkeys(self._queue, 0)
        self._done: set[str] = set()
        self._rng = rng
        self._speed = float(rng.uniform(*SPEED))
        self._stroke = None
        self.finished = False

    def act(self, observation: NDArray[np.floating] | None, simulator: Simulator) -> NDArray[np.float32]:
        """(9,) the clean action for the simulator's present state; `observation` is not needed."""
        if self._arm is None or self._arm.model is not simulator.model:
            self._arm = Arm(simulator.model)
        data = simulator.data
        self._done |= {task for task in self._queue if is_done(task, data)}
        while not self.finished:
            if self._stroke is None:
                self._plan(data)
                continue
            action = self._stroke.action(data)
            if action is not None:
                return action
            self._stroke = None
        return action_for(data, np.zeros(7), gripper=1.0)

    def _plan(self, data: mujoco.MjData) -> None:
        """Plan the next stroke, or finish when no task is left to try."""
        while self._queue and self._settled(self._queue[0]):
            self._queue.popleft()
        if not self._queue:
            self.finished = True
            return
        task = self._queue[0]
        self._tries[task] += 1
        self._stroke = StrokeRunner(self._arm, RECIPES[task].stroke(data, self._rng), self._speed)

    def _settled(self, task: str) -> bool:
        return task in self._done or self._tries[task] >= self.attempts
