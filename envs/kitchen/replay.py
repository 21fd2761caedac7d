"""An episode played again in its environment, for a film."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from envs.demonstrations import TASKS, VIEWS
from mac_policy.demonstrations.demonstrations import Episode


def play(env: gymnasium.Env[Any, Any], episode: Episode) -> Iterator[dict[str, Any]]:
    """Reset, then execute the episode's actions one by one; gives the info of the reset and of every step.

    An episode with a seed starts from `reset(seed=...)`; a kitchen episode without one (people's) starts from
    its first observed positions at rest, so that its replay drifts from what was recorded.
    """
    kitchen = env.spec is not None and "kitchen" in env.spec.id
    columns = VIEWS["qpos"].get(episode.observations.shape[1])
    if episode.seed is None and kitchen and columns is not None:
        _, info = env.reset(seed=0, options={"qpos": episode.observations[0, columns]})
    else:
        _, info = env.reset(seed=episode.seed)
    yield info
    for action in episode.actions if episode.executed is None else episode.executed:
        _, _, terminated, truncated, info = env.step(action)
        yield info
        if terminated or truncated:
            return


def replay(env: gymnasium.Env[Any, Any], episode: Episode) -> tuple[list[NDArray[np.uint8]], tuple[str, ...]]:
    """The frames of a replayed episode, and what the replay completed."""
    frames, completed = [], ()
    for info in play(env, episode):
        frames.append(_frame(env))
        completed = tuple(info.get("completed", ()))
    return frames, completed


def _frame(env: gymnasium.Env[Any, Any]) -> NDArray[np.uint8]:
    try:
        return np.asarray(env.render())
    except Exception as error:  # each renderer fails in its own way
        raise ValueError(f"{env.spec.id if env.spec else env} cannot be rendered here: {error}") from error


def make_for_replay(task: str, size: int) -> gymnasium.Env[Any, Any]:
    """The environment of a task, ready to be filmed."""
    if task not in TASKS:
        raise ValueError(f"video needs the environment of a task ({', '.join(TASKS)}); {task} is none")
    if task == "fork":
        return gymnasium.make("mac_policy/fork-v0", render_mode="rgb_array", disable_env_checker=True)
    try:
        from envs.kitchen.environment import make

        return make(task, render_mode="rgb_array", width=size, height=size, terminate_on_tasks_completed=False)
    except Exception as error:  # a renderer that is missing fails in its own way, even on import
        raise ValueError(f"{task} cannot be rendered here: {error}") from error


def save_film(frames: list[NDArray[np.uint8]], path: str, fps: int = 25) -> None:
    """Write frames as .mp4 or .gif."""
    import imageio.v3 as iio

    options: dict[str, Any] = {"loop": 0, "duration": 1000 / fps} if path.endswith(".gif") else {"fps": fps}
    iio.imwrite(path, np.stack(frames), **options)
