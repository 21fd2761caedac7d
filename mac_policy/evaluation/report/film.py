"""A film of one episode of each arm, side by side, with the operator's dims marked.

The executed actions are executed again in an environment that can be drawn, so that the film shows the measured
episodes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mac_policy.common.processes import map_processes
from mac_policy.evaluation.episode_store import EpisodeRecord
from mac_policy.evaluation.report.drawing import HEADER, draw_commands, text_image
from mac_policy.tasks.task import TaskEnvironment

Frames = NDArray[np.uint8]
WIDEST_ROW = 4
STILL_SECONDS = 2.0
"""Duration of the still picture at the end."""
BLOCK = 16
"""Video encoders require sides that are multiples of this."""


class Scene(NamedTuple):
    """An arm's filmed episode."""

    title: str
    record: EpisodeRecord


def write_film(
    path: Path,
    scenes: Sequence[Scene],
    make_env: TaskEnvironment,
    *,
    every: int = 1,
    fps: float = 12,
    workers: int = 1,
) -> list[Path]:
    """Write an mp4 of all scenes side by side, and its middle frame as a png; returns both paths.

    make_env: makes environments that can be drawn
    every: steps from one frame to the next
    """
    import imageio.v3 as iio

    render = functools.partial(render_scene, make_env, every)
    jobs = list(enumerate(scenes))
    with closing(map_processes(functools.partial(_numbered, render), jobs, workers)) as finished:
        panels = [frames for _, frames in sorted(finished, key=lambda found: found[0])]
    path.parent.mkdir(parents=True, exist_ok=True)
    frames = tile(panels)
    still = np.repeat(frames[-1:], max(1, round(STILL_SECONDS * fps)), axis=0)
    iio.imwrite(path, np.concatenate([frames, still]), fps=fps, macro_block_size=BLOCK)
    iio.imwrite(path.with_suffix(".png"), frames[len(frames) // 2])
    return [path, path.with_suffix(".png")]


def _numbered(render: functools.partial[Frames], job: tuple[int, Scene]) -> tuple[int, Frames]:
    number, scene = job
    return number, render(scene)


def render_scene(make_env: TaskEnvironment, every: int, scene: Scene) -> Frames:
    """The frames of an episode, with a header above and the action below, (T, height, width, 3)."""
    env = make_env()
    try:
        space = env.action_space
        if not isinstance(space, spaces.Box):
            raise ValueError(f"only a Box of actions can be drawn, the environment has {space}")
        env.reset(seed=scene.record.seed)
        reward, frames = 0.0, []
        steps = list(zip(scene.record.actions, scene.record.masks, strict=True))
        for step, (action, mask) in enumerate(steps):
            _, gained, *_ = env.step(np.array(action, space.dtype))
            reward += float(gained)
            if step % every == 0 or step == len(steps) - 1:
                frames.append(_panel(np.asarray(env.render()), scene.title, reward, action, mask, space))
        return np.stack(frames)
    finally:
        env.close()


def _panel(picture: Frames, title: str, reward: float, action: Sequence[float], mask: str, space: spaces.Box) -> Frames:
    width = picture.shape[1]
    header = text_image(f"{title}: reward {reward:g}", width, HEADER)
    share = (np.array(action) - space.low) / (space.high - space.low)
    return np.concatenate([header, picture, draw_commands(share, [held == "1" for held in mask], width)])


def tile(panels: Sequence[Frames], gap: int = 4) -> Frames:
    """Panels (T_i, h, w, 3) arranged in rows, (T, height, width, 3); shorter ones repeat their last frame."""
    length = max(map(len, panels))
    rows = math.ceil(len(panels) / WIDEST_ROW)
    columns = math.ceil(len(panels) / rows)
    high, wide = panels[0].shape[1:3]
    size = [-(-(count * (side + gap) + gap) // BLOCK) * BLOCK for count, side in ((rows, high), (columns, wide))]
    film = np.full((length, *size, 3), 255, np.uint8)
    for place, panel in enumerate(panels):
        top, left = (gap + (place // columns) * (high + gap)), gap + (place % columns) * (wide + gap)
        still = np.repeat(panel[-1:], length - len(panel), axis=0)
        film[:, top : top + high, left : left + wide] = np.concatenate([panel, still])
    return film
