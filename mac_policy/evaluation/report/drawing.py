"""The drawn parts of a film's frame: a line of text, and the dims of the action as bars."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

HEADER, BARS, LABELS = 22, 44, 16
"""Heights in pixels."""
WIDEST = 40
"""Maximum width of a bar in pixels."""
OPERATOR, POLICY = (230, 120, 0), (60, 110, 190)
"""Colours of dims that are commanded and of dims that are filled in."""


@functools.lru_cache(maxsize=512)
def text_image(text: str, width: int, height: int, size: float = 9.0, middle: bool = False) -> NDArray[np.uint8]:
    """(height, width, 3) black text on white."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width / 100, height / 100), dpi=100, facecolor="white")
    canvas = FigureCanvasAgg(figure)
    figure.text(0.5 if middle else 4 / width, 0.5, text, va="center", ha="center" if middle else "left", fontsize=size)
    canvas.draw()  # type: ignore[no-untyped-call]
    drawn = np.asarray(canvas.buffer_rgba())[:height, :width, :3]  # type: ignore[no-untyped-call]
    image = np.full((height, width, 3), 255, np.uint8)
    image[: drawn.shape[0], : drawn.shape[1]] = drawn
    return image


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
