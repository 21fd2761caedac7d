"""A film of one episode of each arm, side by side, with the operator's dims marked.

The executed actions are executed again in an environment that can be drawn, so that the film shows the measured
episodes.
"""

from __future__ import annotations

import functools
import gc
import itertools
import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mac_policy.common.files import naming
from mac_policy.common.processes import map_processes
from mac_policy.evaluation.episode_store import EpisodeRecord
from mac_policy.evaluation.report.pictures import OPERATOR, POLICY, text_image
from mac_policy.evaluation.report.wish_rows import DONE, MISTAKE, Wishes, draw_wishes
from mac_policy.tasks.task import Task, TaskEnvironment

Frames = NDArray[np.uint8]
WIDEST_ROW = 4
STILL_SECONDS = 2.0
"""Duration of the still picture at the end."""
BLOCK = 16
"""Video encoders require sides that are multiples of this."""
GIF_EVERY, GIF_COLOURS, GIF_SWATCH = 2, 96, 60
"""Frames of the film for each one of the gif; its colours; rows of a swatch from which they are chosen."""
HEADER, BARS, LABELS = 22, 44, 16
"""Heights in pixels."""
WIDEST = 40
"""Maximum width of a bar in pixels."""


def write_film(
    path: Path, scenes: Mapping[str, EpisodeRecord], make_env: TaskEnvironment, workers: int = 1
) -> list[Path]:
    """Write an mp4 of all scenes side by side, a small gif of it, and its middle frame as a png; returns their paths.

    scenes: the filmed episode of each arm, by its title
    make_env: makes environments that can be drawn
    """
    import imageio.v3 as iio

    render = functools.partial(render_scene, make_env)
    with closing(map_processes(render, list(scenes.items()), workers)) as finished:
        panels = dict(finished)
    path.parent.mkdir(parents=True, exist_ok=True)
    frames, fps = tile([panels[title] for title in scenes]), make_env.task.film_fps
    still = np.repeat(frames[-1:], max(1, round(STILL_SECONDS * fps)), axis=0)
    with naming(path):
        iio.imwrite(path, np.concatenate([frames, still]), fps=fps, macro_block_size=BLOCK)
        iio.imwrite(path.with_suffix(".png"), frames[len(frames) // 2])
        some = frames[(len(frames) - 1) % GIF_EVERY :: GIF_EVERY]  # with the last one
        write_gif(path.with_suffix(".gif"), some, fps / GIF_EVERY)
    return [path, path.with_suffix(".png"), path.with_suffix(".gif")]


def write_gif(path: Path, frames: Frames, fps: float) -> None:
    """Frames (T, height, width, 3) as a gif that repeats; its colours include those of the bars and names."""
    from PIL import Image, ImageColor

    middle = frames[len(frames) // 2]
    colours: list[tuple[int, ...]] = [OPERATOR, POLICY, ImageColor.getrgb(DONE), ImageColor.getrgb(MISTAKE)]
    swatches = [np.full((GIF_SWATCH, middle.shape[1], 3), colour, np.uint8) for colour in colours]
    palette = Image.fromarray(np.concatenate([middle, *swatches])).quantize(GIF_COLOURS)
    images = [Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    times = [round(1000 / fps)] * (len(images) - 1) + [round(1000 * STILL_SECONDS)]
    images[0].save(path, save_all=True, append_images=images[1:], duration=times, loop=0, optimize=True)


def render_scene(make_env: TaskEnvironment, scene: tuple[str, EpisodeRecord]) -> tuple[str, Frames]:
    """The title and the frames of an episode, a header above and the action below, (T, height, width, 3)."""
    title, record = scene
    gc.collect()  # a renderer of an earlier scene that was freed later would delete what this one draws into
    with closing(make_env()) as env:
        space = env.action_space
        if not isinstance(space, spaces.Box):
            raise ValueError(f"only a Box of actions can be drawn, the environment has {space}")
        stated = record.intent and record.changed_at is None
        env.reset(seed=record.seed, options={"intent": list(record.intent)} if stated else None)
        reward, frames = 0.0, []
        for step, (action, mask) in enumerate(zip(record.actions, record.masks, strict=True)):
            if step == record.changed_at:
                env.get_wrapper_attr("want")(record.intent)
            _, gained, _, _, info = env.step(np.array(action, space.dtype))
            reward += float(gained)
            if step % make_env.task.film_every == 0 or step == len(record.actions) - 1:
                panel = _panel(np.asarray(env.render()), title, reward, action, mask, space)
                frames.append(_with_wishes(panel, make_env.task, record, step, info))
    return title, np.stack(frames)


def _with_wishes(panel: Frames, task: Task, record: EpisodeRecord, step: int, info: Mapping[str, Any]) -> Frames:
    """A panel with a row for each goal below, in episodes with an intent."""
    if not record.intent:
        return panel
    classes = task.labels[0].classes if task.labels else ()
    wish = classes[record.wished[step]] if record.wished and record.wished[step] >= 0 else None
    belief = dict(zip(classes, record.beliefs[step], strict=True)) if record.beliefs else {}
    shown = Wishes(info.get("intent", record.intent), info.get("completed", ()), wish, belief)
    return np.concatenate([panel, draw_wishes(task.goals, shown, panel.shape[1])])


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


def draw_commands(share: NDArray[np.floating], held: Sequence[bool], width: int) -> NDArray[np.uint8]:
    """A bar for each dim of the action, with its number below, (BARS + 2 LABELS, width, 3).

    share: (n,) position in the range of each dim, in [0, 1]; bars start from the middle
    held: dims that the operator holds, which are orange
    """
    image = np.full((BARS + 2 * LABELS, width, 3), 255, np.uint8)
    edges = np.linspace(0, width, len(held) + 1).astype(int)
    half = min(WIDEST, int(edges[1]) - 6) // 2
    for dim, (left, right) in enumerate(itertools.pairwise(edges.tolist())):
        end = round((1 - float(np.clip(share[dim], 0, 1))) * (BARS - 1))
        top, bottom = sorted((BARS // 2, end))
        place = (left + right) // 2
        image[top : bottom + 1, place - half : place + half] = OPERATOR if held[dim] else POLICY
        image[BARS : BARS + LABELS, left:right] = text_image(str(dim), right - left, LABELS, 8.0, middle=True)
    image[BARS // 2] = 0
    image[BARS + LABELS :] = _legend(width)
    return image


@functools.lru_cache(maxsize=8)
def _legend(width: int) -> NDArray[np.uint8]:
    image = np.full((LABELS, width, 3), 255, np.uint8)
    for left, colour, text in ((4, OPERATOR, "operator"), (width // 2, POLICY, "filled in")):
        image[4:12, left : left + 8] = colour
        image[:, left + 10 : width // 2 + left - 4] = text_image(text, width // 2 - 14, LABELS, 8.0)
    return image
