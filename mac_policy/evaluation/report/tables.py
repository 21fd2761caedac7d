"""Tables of results, with the same cells on the screen and in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from rich.console import Group
from rich.table import Table
from rich.text import Text


class Grid(NamedTuple):
    """The text of a table: names in the first column, numbers in the others."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def rich(self) -> Group:
        """The table for the screen."""
        table = Table()
        for i, name in enumerate(self.header):
            table.add_column(name, justify="left" if i == 0 else "right", no_wrap=i == 0, overflow="fold")
        for row in self.rows:
            table.add_row(*row)
        return Group(Text(self.title, style="bold"), table)

    def markdown(self) -> str:
        rules = ["---", *["---:"] * (len(self.header) - 1)]
        lines = ["| " + " | ".join(cells) + " |" for cells in (self.header, rules, *self.rows)]
        return "\n".join([f"**{self.title}**", "", *lines, ""])


def reward_table(arms: Mapping[str, Mapping[str, Any]], title: str = "Reward") -> Grid:
    """Mean reward of each arm with its standard error and interval, the mean of each training seed, fill-in time."""
    several = any(len(arm["seed_means"]) > 1 for arm in arms.values())
    header = ("arm", "reward", "95% interval", *(["each seed"] if several else []), "fill-in, ms")
    rows = []
    for name, arm in arms.items():
        each = [" ".join(f"{mean:.2f}" for mean in arm["seed_means"])] if several else []
        rows.append((name, with_error(arm), interval(arm["ci95"]), *each, milliseconds(arm["latency_ms"])))
    return Grid(title, header, tuple(rows))


def task_table(
    arms: Mapping[str, Mapping[str, Any]], title: str = "Share of episodes in which each goal is completed"
) -> Grid:
    """How often each arm completes each goal."""
    tasks = list(dict.fromkeys(task for arm in arms.values() for task in arm["per_task"]))
    rows = [
        (name, *(f"{arm['per_task'][task]['rate']:.0%}" if task in arm["per_task"] else "0%" for task in tasks))
        for name, arm in arms.items()
    ]
    return Grid(title, ("arm", *tasks), tuple(rows))


def difference_table(paired: Mapping[str, Mapping[str, Any]], title: str = "Paired differences in reward") -> Grid:
    """Each difference with its interval, and whether it shows that the arms differ: zero lies outside the interval."""
    rows = [(name, f"{gap['mean']:+.2f}", interval(gap["ci95"], "+"), verdict(gap)) for name, gap in paired.items()]
    return Grid(title, ("difference", "reward", "95% interval", "differ"), tuple(rows))


def overview_table(
    columns: Mapping[str, Mapping[str, Mapping[str, Any]]], title: str, cell: Callable[[Mapping[str, Any]], str]
) -> Grid:
    """The same arms, or the same paired differences, under several conditions, a column for each."""
    names = list(dict.fromkeys(name for column in columns.values() for name in column))
    rows = [(name, *(cell(c[name]) if name in c else "" for c in columns.values())) for name in names]
    return Grid(title, ("", *columns), tuple(rows))


def with_interval(gap: Mapping[str, Any]) -> str:
    return f"{gap['mean']:+.2f} ({interval(gap['ci95'], '+')})"


def with_error(arm: Mapping[str, Any]) -> str:
    error = "" if arm["reward_se"] is None else f" ± {arm['reward_se']:.2f}"
    return f"{arm['reward_mean']:.2f}{error}"


def interval(ends: Sequence[float] | None, sign: str = "") -> str:
    return "-" if ends is None else f"{ends[0]:{sign}.2f} to {ends[1]:{sign}.2f}"


def verdict(gap: Mapping[str, Any]) -> str:
    ends = gap["ci95"]
    return "not shown" if ends is None or ends[0] <= 0 <= ends[1] else "yes"


def milliseconds(latency: Mapping[str, float]) -> str:
    """Median and 95th percentile."""
    return f"{latency['p50']:.1f} / {latency['p95']:.1f}"
