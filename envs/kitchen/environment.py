"""The Franka kitchen as a flat gymnasium environment.

`FrankaKitchen-v1` of gymnasium-robotics simulates the physics. `KitchenEnv` returns flat float32 arrays that share no
memory and new tuples of the completed goals, and can vary the start.

>>> env = make("kitchen-mixed")
>>> observation, info = env.reset(seed=0)
>>> observation.shape, info["completed"]
((30,), ())
"""

import atexit
import weakref
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from farama_notifications import notifications
from gymnasium import spaces
from numpy.typing import NDArray

from envs.kitchen.rendering import loading_failed, prepare_rendering

try:
    import mujoco

    notifications.pop("gymnasium_robotics", None)  # a notice about other environments, printed in every process
    from gymnasium_robotics.envs.franka_kitchen import KitchenEnv as FrankaKitchen

    from envs.kitchen.sensors import KITCHENS, QuickReading
except Exception as error:
    raise loading_failed(error) from error

from envs.kitchen.goals import CANONICAL_ORDER, GOAL_SETS, MAX_EPISODE_STEPS, VIEWS, goal_tasks
from mac_policy.common.checks import check_choice

Env = gymnasium.Env[NDArray[np.float32], NDArray[np.float32]]
STARTS = ("official", "randomised")
VALUES = 59  # of FrankaKitchen-v1's observation
COSTLY = (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION)

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


class KitchenEnv(Env):
    """The kitchen with a set of goals, seen as positions (`qpos`, 30 values) or with velocities (`full`, 59).

    Action: for 7 arm joints and 2 fingers the way from the present reading to the target of the position controller, in
    [-1, 1], where 1 is .16 rad or m. Reward: the number of goals newly completed by the
    step. `info['completed']` lists the completed goals in the order of completion, `info['is_success']` tells whether
    all are completed. `reset(options={'qpos': array of 30})` starts from a given state at rest.
    """

    metadata = {"render_modes": ["human", "rgb_array", "depth_array"], "render_fps": 12}  # noqa: RUF012

    def __init__(
        self,
        task: str | Sequence[str] | None = None,
        *,
        tasks: Sequence[str] | None = None,
        observation: str = "qpos",
        start: str = "official",
        joint_std: float = 0.05,
        sensors: str = "stock",
        terminate_on_tasks_completed: bool = True,
        render_mode: str | None = None,
        width: int = 256,
        height: int = 256,
        shadows: bool = True,
    ) -> None:
        """Configure the kitchen; its simulator is built at once.

        task: the name of a goal set or a list of goals; tasks: another name for the list
        shadows: False disables shadows and reflections, without which a software renderer is ten times as fast
        """
        if (task is None) == (tasks is None):
            raise ValueError(f"give a task name or a list of tasks, one of the two: task={task!r}, tasks={tasks!r}")
        self.goals = goal_tasks(tasks if task is None else task)
        self.view = VIEWS[check_choice("kitchen observation", observation, VIEWS)][VALUES]
        self.start = check_choice("kitchen start", start, STARTS)
        if not joint_std >= 0:
            raise ValueError(f"joint_std must be a number of radians >= 0, got {joint_std!r}")
        self.joint_std = joint_std
        self.sensors = check_choice("kitchen sensors", sensors, KITCHENS)
        self.terminate_on_tasks_completed = terminate_on_tasks_completed
        if render_mode is not None:
            prepare_rendering(check_choice("render mode", render_mode, self.metadata["render_modes"]))
        self.render_mode, self.shadows = render_mode, shadows
        self.inner: FrankaKitchen = KITCHENS[self.sensors](
            tasks_to_complete=list(self.goals),
            terminate_on_tasks_completed=False,
            render_mode=render_mode,
            width=width,
            height=height,
        )
        self.inner.robot_env._get_obs = QuickReading(self.inner.robot_env)
        self._rendered = False
        self.observation_space = spaces.Box(-np.inf, np.inf, (len(self.view),), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (9,), np.float32)
        self._completed: tuple[str, ...] = ()

    @property
    def model(self) -> mujoco.MjModel:
        """The simulator's model."""
        return self.inner.model

    @property
    def data(self) -> mujoco.MjData:
        """The simulator's live state."""
        return self.inner.data

    @property
    def completed(self) -> tuple[str, ...]:
        """The completed goals in the order of their completion."""
        return self._completed

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        raw, _ = self.inner.reset(seed=seed)
        self._completed = ()
        if options is not None and "qpos" in options:
            raw = self._place(np.asarray(options["qpos"], dtype=np.float64))
        elif self.start == "randomised":
            raw = self._place(randomise_start(self.model, self.data.qpos, self.joint_std, self.np_random))
        return self._observe(raw), self._info()

    def step(self, action: NDArray[np.floating]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        action = np.asarray(action, dtype=np.float64)
        if action.shape != (9,) or not np.isfinite(action).all():
            raise ValueError(f"a kitchen action is 9 finite numbers, got {action!r}")
        raw, reward, _, _, inner_info = self.inner.step(action)
        # The simulator lists what one step completed in the order of a set of strings: not reproducible.
        done_now = [task for task in CANONICAL_ORDER if task in inner_info["step_task_completions"]]
        self._completed = (*self._completed, *done_now)
        info = self._info()
        terminated = self.terminate_on_tasks_completed and info["is_success"]
        return self._observe(raw), float(reward), terminated, False, info

    def render(self) -> Any:
        frame = self.inner.render()
        if not self._rendered:
            # A context that is closed at the interpreter's shutdown prints an error. This handler is registered
            # after OpenGL's own and therefore runs before it.
            atexit.register(_close_if_alive, weakref.ref(self.inner))
            self._rendered = True
            if not self.shadows:  # the first frame makes the drawing context
                scene = self.inner.robot_env.mujoco_renderer.viewer.scn
                for flag in COSTLY:
                    scene.flags[flag] = 0
                frame = self.inner.render()
        return frame

    def close(self) -> None:
        if self._rendered:
            self._rendered = False
            # What is drawn into would otherwise be deleted by the garbage collector, at any later time, and from the
            # context of whichever environment then draws.
            for viewer in self.inner.robot_env.mujoco_renderer._viewers.values():
                viewer.make_context_current()
                viewer.con.free()
        self.inner.close()

    def _observe(self, raw: dict[str, Any]) -> NDArray[np.float32]:
        return raw["observation"][self.view].astype(np.float32)

    def _info(self) -> dict[str, Any]:
        return {"completed": self._completed, "is_success": len(self._completed) == len(self.goals)}

    def _place(self, qpos: NDArray[np.float64]) -> dict[str, Any]:
        if qpos.shape != (self.model.nq,) or not np.isfinite(qpos).all():
            raise ValueError(f"options['qpos'] must be {self.model.nq} finite numbers, got {qpos!r}")
        robot = self.inner.robot_env
        robot.set_state(qpos, np.zeros(self.model.nv))
        # The robot's next target starts from its last noisy reading, which this call alone refreshes.
        return self.inner._get_obs(robot._get_obs())


def make(
    task: str | Sequence[str],
    observation: str = "qpos",
    start: str = "official",
    joint_std: float = 0.05,
    sensors: str = "stock",
    render_mode: str | None = None,
    max_episode_steps: int = MAX_EPISODE_STEPS,
    terminate_on_tasks_completed: bool = True,
    **kwargs: Any,
) -> Env:
    """A kitchen for a goal set ('kitchen-complete', 'kitchen-mixed', 'kitchen-partial') or a list of tasks.

    start='randomised' perturbs the arm's joints (normal, `joint_std` rad) and moves the objects within their
    play at each reset, from the reset's seed. sensors='d4rl' reads positions with the noise of D4RL's kitchen, under
    which the human demonstrations were recorded (see `envs.kitchen.sensors`). The result is rebuilt by
    `gymnasium.make(env.spec)`.
    """
    goals = goal_tasks(task)
    named = isinstance(task, str) and task in GOAL_SETS
    return gymnasium.make(
        f"mac_policy/{task}-v0" if named else "mac_policy/kitchen-v0",
        max_episode_steps=max_episode_steps,
        disable_env_checker=True,
        observation=observation,
        start=start,
        joint_std=joint_std,
        sensors=sensors,
        render_mode=render_mode,
        terminate_on_tasks_completed=terminate_on_tasks_completed,
        **({} if named else {"tasks": list(goals)}),
        **kwargs,
    )


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


def _close_if_alive(inner: "weakref.ref[FrankaKitchen]") -> None:
    if (alive := inner()) is not None:
        alive.close()
