"""Figures of a comparison: rewards with intervals, shares of tasks done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

UNWANTED = "tab:red"
SHARED, ALONE, CONTROL = "tab:blue", "tab:orange", "0.55"
"""Colours of an operator with a policy, a policy alone, a control."""


def reward_figure(arms: Mapping[str, Mapping[str, Any]], title: str, best: float | None = None) -> Figure:
    """Mean reward of each arm with its 95% interval; dots are training seeds. `best`: the highest reward possible."""
    figure, axes = _figure(7.0, 1.2 + 0.42 * len(arms), title)
    for place, (name, arm) in enumerate(arms.items()):
        low, high = arm["ci95"] or [arm["reward_mean"]] * 2
        axes.barh(place, arm["reward_mean"], height=0.62, color=colour_of(name), alpha=0.75)
        axes.plot([low, high], [place, place], color="black", linewidth=1.4, solid_capstyle="butt")
        if len(arm["seed_means"]) > 1:
            axes.plot(arm["seed_means"], np.full(len(arm["seed_means"]), place), "o", color="black", markersize=3.5)
        axes.annotate(
            f"{arm['reward_mean']:.2f}",
            (max(high, arm["reward_mean"]), place),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
        )
    axes.set_yticks(range(len(arms)), list(arms))
    axes.invert_yaxis()
    most = best or max(end for arm in arms.values() for end in (*(arm["ci95"] or ()), arm["reward_mean"]))
    axes.set(xlim=(0, 1.08 * (most or 1.0)), xlabel="reward per episode, mean and 95% interval")
    return figure


def wish_figure(arms: Mapping[str, Mapping[str, Any]], title: str, best: float) -> Figure:
    """Wanted and unwanted tasks of each arm, means with 95% intervals."""
    figure, axes = _figure(7.0, 1.4 + 0.5 * len(arms), title)
    for place, (name, arm) in enumerate(arms.items()):
        for measure, shift, colour in (("wanted", -0.18, colour_of(name)), ("unwanted", 0.2, UNWANTED)):
            mean = arm.get(f"{measure}_mean", 0.0)
            low, high = arm.get(f"{measure}_ci95") or (mean, mean)
            axes.barh(place + shift, mean, height=0.34, color=colour, alpha=0.75)
            axes.plot([low, high], [place + shift] * 2, color="black", linewidth=1.2, solid_capstyle="butt")
    axes.set_yticks(range(len(arms)), list(arms))
    axes.invert_yaxis()
    axes.set(xlim=(0, 1.08 * best), xlabel="wanted tasks, below unwanted ones (red); mean and 95% interval")
    return figure


def dims_figure(
    columns: Mapping[str, Mapping[str, Mapping[str, Any]]], title: str, best: float, counts: Sequence[int] | None = None
) -> Figure:
    """Rewards of the same arms under several specifications of the held dims, means with 95% intervals.

    counts: the number of dims held in each column, where a column holds all dims of the one before and more: the arms
    are then lines over it, otherwise bars
    """
    from matplotlib import colormaps

    arms = list(dict.fromkeys(name for column in columns.values() for name in column))
    figure, axes = _figure(7.5 if counts else 2.8 + 1.6 * len(columns), 4.2, title)
    colours = colormaps["tab20"].colors  # type: ignore[attr-defined]
    for i, name in enumerate(arms):
        at = [place for place, column in enumerate(columns.values()) if name in column]
        found = [column[name] for column in columns.values() if name in column]
        means = np.array([arm["reward_mean"] for arm in found])
        ends = np.array([arm["ci95"] or [arm["reward_mean"]] * 2 for arm in found])
        errors, look = np.abs(ends - means[:, None]).T, {"label": name, "color": colours[i % len(colours)]}
        if counts:
            axes.errorbar([counts[k] for k in at], means, errors, marker="o", markersize=3.5, elinewidth=0.8, **look)
        else:
            places = np.array(at) + (i - (len(arms) - 1) / 2) * 0.84 / len(arms)
            axes.bar(places, means, 0.84 / len(arms), yerr=errors, error_kw={"linewidth": 0.8}, **look)
    if not counts:
        axes.set_xticks(range(len(columns)), list(columns))
    what = "number of dims held, the first ones" if counts else "dims held"
    axes.set(ylim=(0, 1.08 * best), xlabel=what, ylabel="reward per episode")
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    return figure


def task_figure(arms: Mapping[str, Mapping[str, Any]], title: str) -> Figure:
    """The share of episodes in which each arm does each task, with its 95% interval."""
    tasks = list(dict.fromkeys(task for arm in arms.values() for task in arm["per_task"])) or ["nothing"]
    figure, axes = _figure(max(6.0, 1.6 + 0.24 * len(tasks) * len(arms)), 3.6, title)
    width = 0.84 / len(arms)
    shades = _shades(list(arms))
    for i, (name, arm) in enumerate(arms.items()):
        places = np.arange(len(tasks)) + (i - (len(arms) - 1) / 2) * width
        rates, low, high = (np.array(column) for column in zip(*(_share(arm, task) for task in tasks), strict=True))
        errors = np.stack([rates - low, high - rates]).clip(0)
        axes.bar(places, rates, width, label=name, color=shades[i])
        axes.errorbar(places, rates, errors, fmt="none", ecolor="black", elinewidth=0.8)
    axes.set_xticks(range(len(tasks)), tasks)
    axes.set(ylim=(0, 1.02), ylabel="share of episodes")
    axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    figure.legend(loc="outside right upper", frameon=False, fontsize=9)
    return figure


def colour_of(arm: str) -> str:
    """The colour of an arm's kind."""
    if arm in ("zeros", "operator") or arm.endswith("-blind"):
        return CONTROL
    return SHARED if arm.startswith("operator+") else ALONE


def _shades(names: Sequence[str]) -> list[NDArray[np.float64]]:
    """The colours of arms: those of their kinds, lighter for each further arm of a kind."""
    from matplotlib.colors import to_rgb

    colours = [colour_of(name) for name in names]
    paler = [0.6 * colours[:i].count(colour) / colours.count(colour) for i, colour in enumerate(colours)]
    return [np.array(to_rgb(colour)) * (1 - share) + share for colour, share in zip(colours, paler, strict=True)]


def _share(arm: Mapping[str, Any], task: str) -> tuple[float, float, float]:
    found = arm["per_task"].get(task)
    return (found["rate"], *found["ci95"]) if found else (0.0, 0.0, 0.0)


def _figure(width: float, height: float, title: str) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title, fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes
