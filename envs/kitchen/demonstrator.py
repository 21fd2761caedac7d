"""The scripted demonstrator of the kitchen: completes any of the seven goals in any order.

It acts from the simulator's state. `record_episode` records demonstrations; `ScriptedExpert.act` gives one action at a
time, for an operator.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from envs.kitchen import environment as kitchen
from envs.kitchen.control import RobotArm, action_for
from envs.kitchen.goals import CANONICAL_ORDER, MAX_EPISODE_STEPS, goal_tasks
from envs.kitchen.orders import demonstration_order
from envs.kitchen.stroke import StrokeRunner
from envs.kitchen.strokes import MANOEUVRES, is_done
from mac_policy.demonstrations.demonstrations import Episode

if TYPE_CHECKING:
    import mujoco

SPEED = (0.036, 0.052)  # metres of tool motion a step, drawn once an episode
# Range of the noise's standard deviation while collecting, drawn once an episode. With clean labels, noise shows how
# to recover; policies trained on a wide range did better than on any single value.
COLLECTION_NOISE = (0.05, 0.35)


class Simulator(Protocol):
    """What the demonstrator reads of a simulator, such as `env.unwrapped` of a kitchen."""

    @property
    def model(self) -> mujoco.MjModel: ...
    @property
    def data(self) -> mujoco.MjData: ...


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
        self._stroke: StrokeRunner | None = None

    def reset(self, order: Sequence[str], rng: np.random.Generator) -> None:
        """Start an episode: the goals in their order, and the source of all randomness."""
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
            self._arm = RobotArm(simulator.model)
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
        """Plan the next stroke, or finish when no goal is left."""
        while self._queue and self._settled(self._queue[0]):
            self._queue.popleft()
        if not self._queue:
            self.finished = True
            return
        task = self._queue[0]
        self._tries[task] += 1
        self._stroke = StrokeRunner(self._arm, MANOEUVRES[task].stroke(data, self._rng), self._speed)

    def _settled(self, task: str) -> bool:
        return task in self._done or self._tries[task] >= self.attempts


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
    expert_rng, noise_rng = rng.spawn(2)
    tasks = demonstration_order(task, order, rng)
    return Plan(tasks, float(rng.uniform(low, high)), int(rng.integers(2**31)), expert_rng, noise_rng)


class EpisodeRecorder:
    """Records demonstrations in one environment, which takes half a second to build."""

    def __init__(self, observation: str = "qpos", start: str = "official", joint_std: float = 0.05) -> None:
        self.env = kitchen.make(
            CANONICAL_ORDER,
            observation=observation,
            start=start,
            joint_std=joint_std,
            max_episode_steps=10**9,
            terminate_on_tasks_completed=False,
        )
        self.expert = ScriptedExpert()

    def record(
        self,
        task: str | Sequence[str],
        *,
        seed: int,
        index: int,
        order: str = "default",
        noise: float | tuple[float, float] = COLLECTION_NOISE,
        max_steps: int = MAX_EPISODE_STEPS,
    ) -> Episode:
        """One demonstration, until the hand has backed off from its last goal, or for `max_steps` steps.

        `actions` are clean, `executed` have noise. `rewards` count the goals of `task` as its environment does;
        `completed` also lists completed goals that are not goals of `task`.
        """
        if max_steps < 1:
            raise ValueError(f"max_steps must be at least 1, got {max_steps!r}")
        goals = goal_tasks(task)
        plan = plan_episode(task, seed=seed, index=index, order=order, noise=noise)
        observation, info = self.env.reset(seed=plan.start_seed)
        self.expert.reset(plan.order, plan.expert_rng)
        observations, actions, executed, rewards = [observation], [], [], []
        for _ in range(max_steps):
            action = self.expert.act(observation, self.env.unwrapped)
            if self.expert.finished:
                break
            actions.append(action)
            executed.append(add_arm_noise(action, plan.noise, plan.noise_rng))
            before = info["completed"]
            observation, _, _, _, info = self.env.step(executed[-1])
            observations.append(observation)
            rewards.append(sum(name in goals for name in info["completed"][len(before) :]))
        truncations = np.zeros(len(actions), dtype=bool)
        truncations[-1] = True
        return Episode(
            observations=np.stack(observations),
            actions=np.stack(actions),
            rewards=np.array(rewards, dtype=np.float32),
            terminations=np.zeros(len(actions), dtype=bool),
            truncations=truncations,
            completed=info["completed"],
            executed=np.stack(executed),
            seed=plan.start_seed,  # of the reset: a replay from it sees the same
        )

    def close(self) -> None:
        self.env.close()


def add_arm_noise(action: NDArray[np.float32], std: float, rng: np.random.Generator) -> NDArray[np.float32]:
    """(9,) the action with Gaussian noise on its seven arm velocities, inside [-1, 1]."""
    noisy = action.copy()
    noisy[:7] += rng.normal(0.0, std, 7).astype(np.float32)
    return np.clip(noisy, -1.0, 1.0)


@functools.lru_cache(maxsize=2)
def _recorder(observation: str, start: str, joint_std: float) -> EpisodeRecorder:
    return EpisodeRecorder(observation, start, joint_std)


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
) -> Episode:
    """Demonstration `index` under `seed`, the same bytes each time; see `EpisodeRecorder.record`.

    The environment is built once per process and kept.

    >>> episode = record_episode("kitchen-mixed", seed=0, index=7)
    """
    recorder = _recorder(observation, start, joint_std)
    return recorder.record(task, seed=seed, index=index, order=order, noise=noise, max_steps=max_steps)
