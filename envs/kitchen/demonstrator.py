"""The scripted demonstrator of the kitchen: completes any of the seven goals in any order.

It acts from the simulator's state. `record_episode` records demonstrations; `ScriptedExpert.act` gives one action at a
time, for an operator.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from envs.kitchen import environment as kitchen  # first: it explains why a simulator cannot be loaded
from envs.kitchen.control import RobotArm, action_for
from envs.kitchen.detours import Detours
from envs.kitchen.goals import (
    CANONICAL_ORDER,
    HINGE_CABINET,
    MAX_EPISODE_STEPS,
    SLIDE_CABINET,
    demonstration_order,
    goal_tasks,
)
from envs.kitchen.stroke import Stage, StrokeRunner
from envs.kitchen.strokes import MANOEUVRES, distances_to, is_done
from mac_policy.demonstrations.episode import Episode

SPEED = (0.036, 0.052)  # metres of tool motion a step, drawn once an episode
# Range of the noise's standard deviation while collecting, drawn once an episode. With clean labels, noise shows how
# to recover; policies trained on a wide range did better than on any single value.
COLLECTION_NOISE = (0.05, 0.35)
FOLLOWED = 0.1  # metres by which another goal is nearer than the pursued one before a cooperative expert changes to it


class ScriptedExpert:
    """Completes goals in a given order and retries those that it missed.

    >>> expert = ScriptedExpert()
    >>> expert.reset(["kettle", "microwave"], np.random.default_rng(0))
    >>> action = expert.act(observation, env.unwrapped)  # (9,) float32, until expert.finished
    """

    def __init__(self, attempts: int = 4) -> None:
        """`attempts`: how often a goal is tried before it is skipped."""
        self.attempts = attempts
        self.finished = True
        self._arm: RobotArm | None = None

    def reset(self, order: Sequence[str], rng: np.random.Generator) -> None:
        """Start an episode: the goals in their order, and the source of all randomness."""
        self._tries = dict.fromkeys(goal_tasks(list(order)), 0)
        self._done: set[str] = set()
        self._rng = rng
        self._speed = float(rng.uniform(*SPEED))
        self._stroke: StrokeRunner | None = None
        self._pursued: str | None = None
        self.finished = False

    def want(self, order: Sequence[str], simulator: kitchen.KitchenEnv) -> None:
        """Pursue other goals from now on; a stroke at a goal that is not pursued any more is broken off."""
        self._tries = {task: self._tries.get(task, 0) for task in goal_tasks(list(order))}
        self.finished = False
        if self._stroke is not None and self._pursued != self.wish((), simulator):
            self._stroke.break_off(simulator.data)
            self._pursued = None

    def wish(self, completed: Collection[str], simulator: kitchen.KitchenEnv) -> str | None:
        """The goal that is pursued, or will be pursued next; None if no goal is left.

        completed: goals that count as completed, besides those that the expert has seen completed itself
        """
        left = self._left(completed)
        if self._pursued in left:
            return self._pursued
        able = self._able(left)
        return self._choose(able, simulator) if able else None

    def act(self, observation: NDArray[np.floating] | None, simulator: kitchen.KitchenEnv) -> NDArray[np.float32]:
        """(9,) the clean action for the simulator's present state; `observation` is not needed."""
        if self._arm is None or self._arm.model is not simulator.model:
            self._arm = RobotArm(simulator.model)
        data = simulator.data
        self._done |= {task for task in self._tries if is_done(task, data)}
        while not self.finished:
            if self._stroke is not None and (action := self._stroke.action(data)) is not None:
                return action
            self._plan(simulator)
        return action_for(data, np.zeros(7), gripper=1.0)

    def carried(self, detours: Detours, simulator: kitchen.KitchenEnv) -> NDArray[np.float32] | None:
        """(9,) what the robot executes in place of the last action of `act` where a detour takes it; otherwise None."""
        if self._stroke is None or self._arm is None:
            return None
        approached = self._pursued if self._stroke.stage is Stage.TRAVEL else None
        return detours.action(approached, self._arm, self._speed, simulator)

    def _plan(self, simulator: kitchen.KitchenEnv) -> None:
        """Plan the next stroke, or finish when no goal is left."""
        left = self._able(self._left())
        self.finished = not left
        self._stroke, self._pursued = None, None
        if left:
            self._pursued = self._choose(left, simulator)
            self._tries[self._pursued] += 1
            stroke = MANOEUVRES[self._pursued].stroke(simulator.data, self._rng)
            self._stroke = StrokeRunner(self._arm, stroke, self._speed)

    def _left(self, completed: Collection[str] = ()) -> list[str]:
        return [task for task in self._tries if task not in self._done and task not in completed]

    def _able(self, tasks: Sequence[str]) -> list[str]:
        """The goals that have not been tried too often."""
        return [task for task in tasks if self._tries[task] < self.attempts]

    def _choose(self, left: Sequence[str], simulator: kitchen.KitchenEnv) -> str:
        """The goal to pursue next."""
        return left[0]


class CooperativeExpert(ScriptedExpert):
    """Pursues the goal that the arm is nearest to, and changes to another one while the arm is carried there."""

    def act(self, observation: NDArray[np.floating] | None, simulator: kitchen.KitchenEnv) -> NDArray[np.float32]:
        if self._stroke is not None and self._stroke.stage is Stage.TRAVEL and self._pursued is not None:
            left = self._able([task for task in self._left() if task != self._pursued])
            away = distances_to(simulator.data, [self._pursued, *left])
            others = [task for task in self._reachable([self._pursued, *left]) if task != self._pursued]
            if any(away[task] < away[self._pursued] - FOLLOWED for task in others):
                self._tries[self._pursued] -= 1  # an attempt that was not made
                self._plan(simulator)
        return super().act(observation, simulator)

    def _choose(self, left: Sequence[str], simulator: kitchen.KitchenEnv) -> str:
        away = distances_to(simulator.data, left)
        return min(self._reachable(left), key=away.__getitem__)

    @staticmethod
    def _reachable(left: Sequence[str]) -> list[str]:
        """The goals without the hinge cabinet where its open door would block the slide cabinet."""
        return [task for task in left if task != HINGE_CABINET or SLIDE_CABINET not in left]


class Plan(NamedTuple):
    """All random draws before an episode: a function of seed, index and options alone."""

    order: tuple[str, ...]
    """The intended goals, in their order."""
    noise: float
    """Standard deviation of the noise on the executed arm velocities."""
    start_seed: int
    """Seed of the environment's reset."""
    expert_rng: np.random.Generator
    noise_rng: np.random.Generator
    detour_rng: np.random.Generator


def plan_episode(
    task: str | Sequence[str],
    *,
    seed: int,
    index: int,
    order: str = "default",
    noise: float | tuple[float, float] = COLLECTION_NOISE,
) -> Plan:
    """Draw the order, the noise level and the sources of randomness of episode `index` under `seed`."""
    low, high = noise if isinstance(noise, tuple) else (noise, noise)
    if not 0 <= low <= high:
        raise ValueError(f"noise must be a standard deviation >= 0 or a range (low, high), got {noise!r}")
    rng = np.random.default_rng([seed, index])
    expert_rng, noise_rng, detour_rng = rng.spawn(3)
    tasks = demonstration_order(task, order, rng)
    level, start_seed = float(rng.uniform(low, high)), int(rng.integers(2**31))
    return Plan(tasks, level, start_seed, expert_rng, noise_rng, detour_rng)


def add_arm_noise(action: NDArray[np.float32], std: float, rng: np.random.Generator) -> NDArray[np.float32]:
    """(9,) the action with Gaussian noise on its seven arm velocities, inside [-1, 1]."""
    noisy = action.copy()
    noisy[:7] += rng.normal(0.0, std, 7).astype(np.float32)
    return np.clip(noisy, -1.0, 1.0)


@functools.lru_cache(maxsize=2)
def recording_kitchen(observation: str, start: str, joint_std: float, sensors: str) -> kitchen.Env:
    """The environment of `record_episode`, built once per process: building takes half a second."""
    endless = {"max_episode_steps": 10**9, "terminate_on_tasks_completed": False}
    return kitchen.make(CANONICAL_ORDER, observation, start, joint_std, sensors, **endless)


def record_episode(
    task: str | Sequence[str],
    *,
    seed: int,
    index: int,
    order: str = "default",
    noise: float | tuple[float, float] = COLLECTION_NOISE,
    observation: str = "qpos",
    max_steps: int = MAX_EPISODE_STEPS,
    start: str = "official",
    joint_std: float = 0.05,
    sensors: str = "stock",
    detours: float = 0.0,
) -> Episode:
    """Demonstration `index` under `seed`, the same bytes each time.

    The episode ends when the hand has backed off from its last goal, or after `max_steps` steps. `actions` are clean,
    `executed` have noise. A detour begins with the probability `detours` at each step on the way to a goal. `rewards`
    count the goals of `task` as its environment does; `completed` also lists completed goals that are not goals of
    `task`.

    >>> episode = record_episode("kitchen-mixed", seed=0, index=7)
    """
    if max_steps < 1:
        raise ValueError(f"max_steps must be at least 1, got {max_steps!r}")
    goals = goal_tasks(task)
    plan = plan_episode(task, seed=seed, index=index, order=order, noise=noise)
    env, expert = recording_kitchen(observation, start, joint_std, sensors), ScriptedExpert()
    carried = Detours(detours, plan.detour_rng)
    seen, info = env.reset(seed=plan.start_seed)
    expert.reset(plan.order, plan.expert_rng)
    observations, actions, executed, rewards = [seen], [], [], []
    for _ in range(max_steps):
        action = expert.act(seen, env.unwrapped)
        if expert.finished:
            break
        elsewhere = expert.carried(carried, env.unwrapped) if detours else None
        actions.append(action)
        executed.append(add_arm_noise(action if elsewhere is None else elsewhere, plan.noise, plan.noise_rng))
        before = info["completed"]
        seen, _, _, _, info = env.step(executed[-1])
        observations.append(seen)
        rewards.append(sum(name in goals for name in info["completed"][len(before) :]))
    return Episode(
        observations=np.stack(observations),
        actions=np.stack(actions),
        rewards=np.array(rewards, dtype=np.float32),
        terminations=np.zeros(len(actions), dtype=bool),
        truncations=np.arange(1, len(actions) + 1) == len(actions),
        completed=info["completed"],
        executed=np.stack(executed),
        seed=plan.start_seed,  # of the reset: a replay from it sees the same
    )
