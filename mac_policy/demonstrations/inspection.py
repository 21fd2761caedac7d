"""Tables and figures of demonstrations."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.table import Table

from mac_policy.demonstrations.demonstrations import Demonstrations, Moments, Summary
from mac_policy.demonstrations.episode import Completions, Episode
from mac_policy.demonstrations.meaning import DimMeaning, meanings, verdict


def summary_tables(demonstrations: Demonstrations) -> list[Table]:
    """Counts, completed goals and the range of every dimension."""
    summary = demonstrations.summary()
    ranges = [_ranges("actions", summary.statistics.actions), _ranges("observations", summary.statistics.observations)]
    completed = [_completed(summary)] if summary.completed else []
    return [_overview(demonstrations, summary), *completed, *ranges, _meanings(meanings(demonstrations))]


def _overview(demonstrations: Demonstrations, summary: Summary) -> Table:
    source = demonstrations.source
    shortest, mean, longest = summary.lengths
    table = Table(title=source.name, show_header=False, title_justify="left")
    table.add_column()
    table.add_column(overflow="fold")
    for key, value in (
        ("source", source.kind),
        ("read from", source.location),
        ("sha256 of the content", source.sha256),
        ("episodes", f"{summary.episodes:,}"),
        ("steps", f"{summary.steps:,}"),
        ("episode length", f"{shortest} to {longest}, mean {mean:.1f}"),
        ("observation, action", f"{demonstrations.observation_dim} and {demonstrations.action_dim} values"),
        ("return, mean", f"{summary.return_mean:.3f}"),
        ("with executed actions", f"{summary.executed_differ:,} episodes"),
    ):
        table.add_row(key, value)
    return table


def _completed(summary: Summary) -> Table:
    table = Table("completed", "episodes", "share", title="Completions", title_justify="left")
    for goal, number in summary.completed.items():
        table.add_row(goal, str(number), f"{number / summary.episodes:.0%}")
    table.add_section()
    for count, number in summary.completions.items():
        table.add_row(f"{count} in one episode", str(number), f"{number / summary.episodes:.0%}")
    return table


def _ranges(name: str, values: Moments) -> Table:
    table = Table("dim", "low", "mean", "high", "std", title=f"Range of {name}", title_justify="left")
    for dim, (low, mean, high, std) in enumerate(zip(values.low, values.mean, values.high, values.std, strict=True)):
        spread = "constant" if low == high else f"{std:.2g}"
        table.add_row(str(dim), f"{low:.3f}", f"{mean:.3f}", f"{high:.3f}", spread)
    return table


def _meanings(found: list[DimMeaning]) -> Table:
    """Whether each action dim is a place or an offset, and of what."""
    title = "Actions: an absolute one is a place, a relative one an offset"
    table = Table("dim", "meaning", "observation", "as a place", "as an offset", title=title, title_justify="left")
    for each in found:
        table.add_row(str(each.dim), each.meaning, str(each.moves), f"{each.place:.2f}", f"{each.offset:.2f}")
    counts = Counter(each.meaning for each in found).most_common()
    said = ", ".join(f"{count} of {len(found)} dims {meaning}" for meaning, count in counts)
    together = verdict(found)
    if len(counts) > 1 and together != "unknown":
        said += f"; all lean towards {together}"
    table.caption = (
        f"{said}; correlations with the next observation and with its change, 'observation' is the closest one"
    )
    return table


def action_histograms(demonstrations: Demonstrations) -> Figure:
    """One panel an action dimension."""
    actions = demonstrations.actions
    columns = min(3, actions.shape[1])
    rows = -(-actions.shape[1] // columns)
    figure = Figure(figsize=(4.0 * columns, 2.4 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in panels[actions.shape[1] :]:
        axes.axis("off")
    for dim, axes in enumerate(panels[: actions.shape[1]]):
        axes.hist(actions[:, dim], bins=60, color="tab:blue")
        axes.set_title(f"action {dim}", fontsize=9)
        axes.set_yscale("log")
    figure.suptitle(f"{demonstrations.source.name}: actions ({demonstrations.source.kind})")
    return figure


def completions_over_time(demonstrations: Demonstrations, completions: Completions | None = None) -> Figure:
    """Mean number of completed goals by step, with the middle 80% of the episodes.

    Without `completions` the figure shows the reward so far.
    """
    longest = int(demonstrations.lengths.max())
    counts = np.array([_counts(episode, longest, completions) for episode in demonstrations.episodes])
    figure = Figure(figsize=(6.0, 3.6), layout="constrained")
    axes = figure.add_subplot()
    low, high = np.quantile(counts, [0.1, 0.9], axis=0)
    steps = np.arange(1, longest + 1)
    axes.fill_between(steps, low, high, alpha=0.25, label="80% of the episodes")
    axes.plot(steps, counts.mean(axis=0), label="mean")
    axes.set(xlabel="step", ylabel="goals completed" if completions else "reward so far")
    axes.set_title(f"{demonstrations.source.name} ({demonstrations.source.kind})")
    axes.legend(loc="upper left")
    return figure


def _counts(episode: Episode, longest: int, completions: Completions | None) -> NDArray[Any]:
    """(longest,) goals or reward by each step; an episode that ended keeps its last value."""
    if completions is None:
        done = np.cumsum(episode.rewards)
        return np.pad(done, (0, longest - len(done)), mode="edge")
    at = np.array(list(completions(episode.observations).values()), dtype=np.int64)
    return np.searchsorted(np.sort(at), np.arange(1, longest + 1), side="right")
