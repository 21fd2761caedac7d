"""A recorded episode executed again in its environment, for a film."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mac_policy.common.files import naming
from mac_policy.demonstrations.episode import Episode
from mac_policy.tasks.task import Environment, Task

Frames = list[NDArray[np.uint8]]


def play(task: Task, env: Environment, episode: Episode) -> Iterator[dict[str, Any]]:
    """Reset, then execute the episode's actions one by one; gives the info of the reset and of every step.

    An episode with a seed starts from `reset(seed=...)`, one without from the task's `reset_options`.
    """
    options = task.reset_options(episode) if episode.seed is None else None
    _, info = env.reset(seed=episode.seed if options is None else 0, options=options)
    yield info
    for action in episode.actions if episode.executed is None else episode.executed:
        _, _, terminated, truncated, info = env.step(action)
        yield info
        if terminated or truncated:
            return


def film(task: Task, episode: Episode, size: int) -> tuple[Frames, tuple[str, ...]]:
    """The frames of a replayed episode, `size` pixels high and wide, and the goals that the replay completed."""
    if not task.has_environment:
        raise ValueError(f"a video needs the environment of a task; {task.data.name} has none")
    with _rendering(task):
        env = task.make(size)
    frames, completed = [], ()
    with closing(env):
        for info in play(task, env, episode):
            with _rendering(task):
                frames.append(np.asarray(env.render()))
            completed = tuple(info.get("completed", ()))
    return frames, completed


@contextmanager
def _rendering(task: Task) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # each renderer fails in its own way, a missing one even on import
        raise ValueError(f"{task.name} cannot be rendered here: {error}") from error


def save_film(frames: Frames, path: str, fps: int = 25) -> None:
    """Write frames as .mp4 or .gif."""
    import imageio.v3 as iio

    options: dict[str, Any] = {"loop": 0, "duration": 1000 / fps} if path.endswith(".gif") else {"fps": fps}
    with naming(Path(path)):
        iio.imwrite(path, np.stack(frames), **options)
