"""The fork, a teaching task in two dimensions: pass an obstacle on either side, with two thrusters that must agree.

A boat drifts forward at a constant pace; its front and rear thrusters push it sideways, together:

    x <- x + FORWARD,    y <- y + SIDEWAYS * (front + rear) / 2

An obstacle lies ahead. Both sides are equally good, and the demonstrator decides at the last moment, with both
thrusters at full power. Until then the two kinds of demonstrations look the same, so:

- the mean of the two modes is straight ahead, into the obstacle: a policy that regresses to the mean fails;
- when an operator who intends one side holds one thruster, a policy that ignores the command leaves the other
  thruster at its mean, and the boat turns too late and hits the edge;
- a policy conditioned on the operator's thruster infers the side and passes.

>>> env = Fork()
>>> observation, info = env.reset(seed=0)
>>> observation.shape, env.action_space.shape
((2,), (2,))
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mac_policy.demonstrations.episode import Episode

FORWARD = 0.1
SIDEWAYS = 0.2
STRAIGHT_STEPS = 3
GOAL_X = 1.2
GOAL_Y = 0.15
"""The gate at x = GOAL_X reaches from -GOAL_Y to GOAL_Y."""
OBSTACLE = (0.6, 0.8, 0.54)
"""From x, to x, half the width."""
START_Y = 0.02
LANE = 0.58
"""Where the demonstrator passes the obstacle, above or below."""
SIDES = {"left": 1.0, "right": -1.0}


class Fork(gymnasium.Env[NDArray[np.float32], NDArray[np.float32]]):
    """Observation: x and y. Action: front and rear thruster in [-1, 1]. An episode takes at most 12 steps.

    `info`: `success` (through the gate), `collision`, `completed` (('goal',) on success). Reward 1 on success.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 6}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None) -> None:
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode is {render_mode!r}; allowed are 'rgb_array' and None")
        self.render_mode = render_mode
        self.observation_space = spaces.Box(np.float32([-0.1, -3.0]), np.float32([1.3, 3.0]))
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self._steps = 0
        self._y = 0.0
        self._path: list[NDArray[np.float32]] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        self._steps, self._y = 0, float(self.np_random.uniform(-START_Y, START_Y))
        self._path = [self._observe()]
        return self._observe(), _info(False, False)

    def step(self, action: NDArray[np.floating]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        action = np.asarray(action, dtype=np.float64)
        if action.shape != (2,) or not np.isfinite(action).all():
            raise ValueError(f"a fork action is 2 finite numbers, got {action!r}")
        before = self._observe()
        self._steps += 1
        self._y += SIDEWAYS * float(np.clip(action, -1, 1).mean())
        observation = self._observe()
        self._path.append(observation)
        collision = hits_obstacle(before, observation)
        arrived = self._steps * FORWARD >= GOAL_X - 1e-6
        success = arrived and not collision and abs(self._y) <= GOAL_Y
        return observation, float(success), collision or arrived, False, _info(success, collision)

    def render(self) -> NDArray[np.uint8] | None:
        return None if self.render_mode is None else draw_path(np.array(self._path))

    def _observe(self) -> NDArray[np.float32]:
        return np.array([self._steps * FORWARD, self._y], dtype=np.float32)


def _info(success: bool, collision: bool) -> dict[str, Any]:
    completed = ("goal",) if success else ()
    return {"success": success, "is_success": success, "collision": collision, "completed": completed}


def hits_obstacle(before: NDArray[np.floating], after: NDArray[np.floating]) -> bool:
    """Whether the straight line between two points touches the obstacle."""
    low, high, half = OBSTACLE
    way = np.linspace(before, after, 21)
    return bool(((way[:, 0] >= low - 1e-6) & (way[:, 0] <= high + 1e-6) & (np.abs(way[:, 1]) < half)).any())


def draw_path(path: NDArray[np.floating]) -> NDArray[np.uint8]:
    """(240, 320, 3) the obstacle, the gate, the points (T, 2) passed so far and the boat at their end."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    canvas = FigureCanvasAgg(Figure(figsize=(3.2, 2.4), dpi=100, layout="constrained"))
    axes = canvas.figure.add_subplot()
    low, high, half = OBSTACLE
    axes.add_patch(Rectangle((low, -half), high - low, 2 * half, color="0.4"))
    axes.plot([GOAL_X, GOAL_X], [-GOAL_Y, GOAL_Y], color="tab:green", linewidth=4)
    axes.set(xlim=(-0.05, GOAL_X + 0.05), ylim=(-0.8, 0.8), xlabel="x", ylabel="y")
    axes.plot(path[:, 0], path[:, 1], color="tab:blue")
    axes.plot(*path[-1], marker="o", color="tab:blue")
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def demonstrator(observation: NDArray[np.floating], side: float) -> NDArray[np.float32]:
    """(2,) both thrusters: straight ahead, then to the lane of `side` at full power, then back to the middle."""
    x, y = observation
    if round(float(x) / FORWARD) < STRAIGHT_STEPS:
        return np.zeros(2, dtype=np.float32)
    wanted = side * LANE - y if x < OBSTACLE[1] - 1e-6 else -y
    return np.full(2, np.clip(wanted / SIDEWAYS, -1, 1), dtype=np.float32)


def record_fork_episode(*, seed: int = 0, index: int = 0, noise: float = 0.03) -> Episode:
    """Demonstration `index`, to a random side. Labels are clean; executed actions have Gaussian noise (std `noise`)."""
    rng = np.random.default_rng([seed, index])
    side = rng.choice(list(SIDES.values()))
    env = Fork()
    env_seed = int(rng.integers(2**31))
    observation, info = env.reset(seed=env_seed)
    seen, labels, executed, rewards, ended = [observation], [], [], [], False
    while not ended:
        labels.append(demonstrator(seen[-1], side))
        executed.append(np.clip(labels[-1] + rng.normal(0, noise, 2), -1, 1).astype(np.float32))
        observation, reward, ended, _, info = env.step(executed[-1])
        seen.append(observation)
        rewards.append(reward)
    return Episode(
        observations=np.array(seen),
        actions=np.array(labels),
        rewards=np.array(rewards, dtype=np.float32),
        terminations=np.arange(1, len(rewards) + 1) == len(rewards),
        truncations=np.zeros(len(rewards), dtype=np.bool_),
        completed=info["completed"],
        executed=np.array(executed),
        seed=env_seed,
    )
