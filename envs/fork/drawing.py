"""Pictures of the fork: a frame of one episode, a figure of many trajectories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from envs.fork.environment import GOAL_X, GOAL_Y, OBSTACLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("tab:blue", "tab:orange", "tab:green", "tab:red")


def draw_trajectories(arms: Mapping[str, Sequence[NDArray[np.floating]]]) -> Figure:
    """One panel an arm, each with its trajectories (T, 2) of x and y.

    draw_trajectories({"demonstrations": [e.observations for e in demos.episodes]}).savefig("fork.png")
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(arms), 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(arms), squeeze=False, sharey=True)[0]
    for axes, (name, trajectories), colour in zip(panels, arms.items(), _cycle(len(arms)), strict=True):
        _scene(axes)
        for way in trajectories:
            axes.plot(way[:, 0], way[:, 1], color=colour, alpha=0.5, linewidth=1.2)
        axes.set_title(name)
    return figure


def draw_frame(path: NDArray[np.floating]) -> NDArray[np.uint8]:
    """(240, 320, 3) the way so far and the boat at its end."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.2, 2.4), dpi=100, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    _scene(axes)
    axes.plot(path[:, 0], path[:, 1], color=COLOURS[0])
    axes.plot(*path[-1], marker="o", color=COLOURS[0])
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _scene(axes: Axes) -> None:
    from matplotlib.patches import Rectangle

    low, high, half = OBSTACLE
    axes.add_patch(Rectangle((low, -half), high - low, 2 * half, color="0.4"))
    axes.plot([GOAL_X, GOAL_X], [-GOAL_Y, GOAL_Y], color="tab:green", linewidth=4)
    axes.set(xlim=(-0.05, GOAL_X + 0.05), ylim=(-0.8, 0.8), xlabel="x", ylabel="y")


def _cycle(number: int) -> list[str]:
    return [COLOURS[i % len(COLOURS)] for i in range(number)]
