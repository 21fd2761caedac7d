"""The figure and the table of learn_operator.py: rewards during training, and rewards of the trained operators."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from mac_policy.common.statistics import mean_over_seeds
from mac_policy.evaluation.report.tables import interval

COLOURS = {"filter": "tab:blue", "blind": "tab:green", "full": "tab:orange"}
BINS = 30  # points of a reward curve


class Learned(NamedTuple):
    """One trained operator."""

    arm: str
    ends: np.ndarray
    """(E,): the step at which each training episode ended."""
    rewards: np.ndarray
    """(E,): rewards of the training episodes."""
    measured: np.ndarray
    """(M,): rewards of evaluation episodes, without exploration."""
    seconds: float


def curve(run: Learned, steps: int) -> np.ndarray:
    """(BINS,) mean reward of the episodes that end in each part of the training; NaN where none ends."""
    place = np.minimum((run.ends * BINS / steps).astype(int), BINS - 1)
    count, total = np.bincount(place, minlength=BINS), np.bincount(place, run.rewards, minlength=BINS)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def summary(found: list[Learned], steps: int) -> dict[str, Any]:
    reward = mean_over_seeds([run.measured for run in found])
    curves = np.array([curve(run, steps) for run in found])
    return {
        "reward_mean": reward.mean,
        "ci95": reward.ci95,
        "interval": reward.interval,
        "seed_means": reward.per_seed,
        "episodes": len(found[0].measured),
        "training_seeds": list(range(len(found))),
        "seconds": [round(run.seconds, 1) for run in found],
        "curves": [[None if np.isnan(value) else round(float(value), 4) for value in row] for row in curves],
    }


def draw(runs: dict[str, list[Learned]], record: dict[str, Any]) -> Figure:
    """The reward during training: thin lines are seeds, thick lines are means over seeds."""
    steps = record["steps"]
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes, at = figure.add_subplot(), (np.arange(BINS) + 0.5) * steps / BINS
    for arm, found in runs.items():
        curves = np.array([curve(run, steps) for run in found])
        axes.plot(at, curves.T, color=COLOURS[arm], linewidth=0.7, alpha=0.4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # parts in which no episode ends
            axes.plot(at, np.nanmean(curves, 0), color=COLOURS[arm], linewidth=2.2, label=label(arm, record))
    axes.axhline(record["alone"], color="0.4", linestyle="--", linewidth=1.2, label="policy alone, no operator")
    axes.set(xlabel="environment steps", ylabel="reward per episode during training", xlim=(0, steps))
    axes.set_ylim(bottom=-0.02 * axes.get_ylim()[1])
    seeds = len(next(iter(runs.values())))
    title = f"{record['algorithm']} learns to operate: {record['env']}, {seeds} seed{'s' if seeds > 1 else ''} per arm"
    axes.set_title(title, loc="left", fontsize=11)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def label(arm: str, record: dict[str, Any]) -> str:
    held = f"{len(record['operator_dims'])} of {record['action_dims']} dims"
    return {
        "filter": f"{held}, policy fills in the rest",
        "blind": f"{held}, policy is not shown them",
        "full": f"all {record['action_dims']} dims, no policy",
    }[arm]


def show(record: dict[str, Any]) -> None:
    table = Table(title=f"Reward of trained operators, {record['env']}; without an operator {record['alone']:.2f}")
    for column in ("arm", "reward", "95% interval", "each seed", "seconds per run"):
        table.add_column(column, justify="left" if column == "arm" else "right")
    for name, arm in record["arms"].items():
        each = " ".join(f"{mean:.2f}" for mean in arm["seed_means"])
        seconds = f"{np.mean(arm['seconds']):.0f}"
        table.add_row(name, f"{arm['reward_mean']:.2f}", interval(arm["ci95"]), each, seconds)
    Console().print(table)
