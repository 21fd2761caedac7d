"""What the pictures of a film share: text as pixels, and the colours of who commands."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

OPERATOR, POLICY = (230, 120, 0), (60, 110, 190)
"""Colours of dims that are commanded and of dims that are filled in."""


@functools.lru_cache(maxsize=512)
def text_image(
    text: str, width: int, height: int, size: float = 9.0, middle: bool = False, colour: str = "black"
) -> NDArray[np.uint8]:
    """(height, width, 3) text on white; `colour` as matplotlib names it."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width / 100, height / 100), dpi=100, facecolor="white")
    canvas = FigureCanvasAgg(figure)
    place, side = (0.5, "center") if middle else (4 / width, "left")
    figure.text(place, 0.5, text, va="center", ha=side, fontsize=size, color=colour)
    canvas.draw()  # type: ignore[no-untyped-call]
    drawn = np.asarray(canvas.buffer_rgba())[:height, :width, :3]  # type: ignore[no-untyped-call]
    image = np.full((height, width, 3), 255, np.uint8)
    image[: drawn.shape[0], : drawn.shape[1]] = drawn
    return image
