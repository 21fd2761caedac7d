"""Tables and notes of a comparison, with the same cells on the screen and in Markdown, and the pages that hold them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Group
from rich.table import Table
from rich.text import Text

from mac_policy.common.files import write_figure, write_text
from mac_policy.common.statistics import SEEDS
from mac_policy.evaluation.report.figures import reward_figure, task_figure, wish_figure


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


def reward_table(arms: Mapping[str, Mapping[str, Any]]) -> Grid:
    """Mean reward of each arm with its standard error and interval, the mean of each training seed, and the median and
    the 95th percentile of the fill-in time."""
    several = any(len(arm["seed_means"]) > 1 for arm in arms.values())
    header = ("arm", "reward", "95% interval", *(["each seed"] if several else []), "fill-in, ms")
    rows = []
    for name, arm in arms.items():
        each = [" ".join(f"{mean:.2f}" for mean in arm["seed_means"])] if several else []
        time = "{p50:.1f} / {p95:.1f}".format(**arm["latency_ms"])
        rows.append((name, with_error(arm), interval(arm["ci95"]), *each, time))
    return Grid("Reward", header, tuple(rows))


MEASURES = {
    "unwanted": "unwanted",
    "in_order": "in order",
    "steps": "steps",
    "effort": "effort",
    "fallbacks": "fallbacks",
    "belief_right": "belief right",
}
"""Measures of episodes with an intent, and what their columns are called."""
COUNTS = ("steps", "effort", "fallbacks")
"""Measures that are shown as whole numbers."""


def wish_table(arms: Mapping[str, Mapping[str, Any]]) -> Grid:
    """Of each arm the mean of each measure with its standard error, and what followed a change of the intent."""
    names = [name for name in MEASURES if any(f"{name}_mean" in arm for arm in arms.values())]
    followed = [name for name in FOLLOWED if any(name in arm for arm in arms.values())]
    rows = [
        (arm, *(measured(record, name) for name in names), *(in_time(record, name) for name in followed))
        for arm, record in arms.items()
    ]
    header = ("arm", *(MEASURES[name] for name in names), *(FOLLOWED[name] for name in followed))
    return Grid("What was wanted", header, tuple(rows))


FOLLOWED = {"followed": "followed after", "belief_followed": "belief after"}
"""What follows a change of the intent."""


def measured(arm: Mapping[str, Any], name: str) -> str:
    if f"{name}_mean" not in arm:
        return "-"
    form = ".0f" if name in COUNTS else ".2f"
    error = "" if arm[f"{name}_se"] is None else f" ± {arm[f'{name}_se']:{form}}"
    return f"{arm[f'{name}_mean']:{form}}{error}"


def in_time(arm: Mapping[str, Any], name: str) -> str:
    """The median number of steps until a change was followed, with the share of episodes in which it was."""
    if name not in arm:
        return "-"
    median = arm[f"{name}_after_median"]
    return f"{'never' if median is None else f'{median:g}'} ({arm[name]:.0%})"


def has_intent(record: Mapping[str, Any]) -> bool:
    """Whether the episodes of a comparison had an intent."""
    return any("wanted_mean" in arm for arm in record["arms"].values())


def task_table(arms: Mapping[str, Mapping[str, Any]]) -> Grid:
    """How often each arm completes each goal."""
    tasks = list(dict.fromkeys(task for arm in arms.values() for task in arm["per_task"]))
    rows = [
        (name, *(f"{arm['per_task'][task]['rate']:.0%}" if task in arm["per_task"] else "0%" for task in tasks))
        for name, arm in arms.items()
    ]
    return Grid("Share of episodes in which each goal is completed", ("arm", *tasks), tuple(rows))


def difference_table(paired: Mapping[str, Mapping[str, Any]]) -> Grid:
    """Each difference with its interval, and whether it shows that the arms differ: zero lies outside the interval."""
    rows = [(name, f"{gap['mean']:+.2f}", interval(gap["ci95"], "+"), verdict(gap)) for name, gap in paired.items()]
    return Grid("Paired differences in reward", ("difference", "reward", "95% interval", "differ"), tuple(rows))


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
    return "not shown" if gap["ci95"] is None or gap["ci95"][0] <= 0 <= gap["ci95"][1] else "yes"


def grids(record: Mapping[str, Any]) -> list[Grid]:
    """The tables of one comparison."""
    wishes = [wish_table(record["arms"])] if has_intent(record) else []
    found = [reward_table(record["arms"]), *wishes, task_table(record["arms"])]
    if record["paired"]:
        best = record["best_alone"]
        marked = {
            f"{name} (the best policy alone)" if best and name.endswith(f" - {best}") else name: gap
            for name, gap in record["paired"].items()
        }
        found.append(difference_table(marked))
    return found


def notes(record: Mapping[str, Any]) -> list[str]:
    """Sentences that a reader of the tables needs."""
    arms = record["arms"].values()
    counted = "wanted tasks" if has_intent(record) else "goals"
    found = [f"Reward: {counted} completed per episode. ±: standard error of the mean. Intervals: Student's t."]
    if has_intent(record):
        found.append(
            "Unwanted: completed tasks that were not wanted. In order: wanted tasks completed in the wanted order. "
            "Steps: until all wanted tasks were completed, or to the end. Effort: held dims, summed over the steps."
        )
    if any(name in arm for arm in arms for name in FOLLOWED):
        found.append(
            "Followed after: median number of steps from a change of the intent until the robot turned to what was "
            "wanted since; belief after: until the policy assumed it. In brackets: episodes in which it happened."
        )
    if any(len(arm["training_seeds"]) == 1 for arm in arms):
        found.append(
            "One training seed: ± and intervals are over the episodes of this one training and do not cover another "
            "training (use training_seeds=[0,1,2,3,4])."
        )
    else:
        others = [name for name, arm in record["arms"].items() if not arm["se_over"].startswith(SEEDS)]
        but = f" (over episodes for {', '.join(others)}: untrained, or equal for all training seeds)" if others else ""
        found.append(f"± and intervals are over training seeds and the episodes that they share{but}.")
    found.append("Two arms differ if zero lies outside the 95% interval of their paired difference.")
    if record["best_alone"]:
        found.append("The best policy alone is selected on these episodes, so its mean is biased upwards.")
    steps = {name: arm["fallback_steps"] for name, arm in record["arms"].items() if arm["fallback_steps"]}
    if steps:
        found_steps = ", ".join(f"{name} {count}" for name, count in steps.items())
        found.append(f"Steps at which the fallback kept the robot standing still: {found_steps}.")
    batch = max(arm["latency_ms"]["batch"] for arm in arms)
    found.append(f"Fill-in time: median and 95th percentile of one call, which serves {batch} environments.")
    return found


def write_pages(folder: Path, title: str, facts: Sequence[str], record: Mapping[str, Any], best: float) -> list[Path]:
    """Write table.md, reward.png and tasks.png, and with an intent wanted.png."""
    pictures = ("wanted", "reward", "tasks") if has_intent(record) else ("reward", "tasks")
    page = write_table(folder, title, facts, grids(record), notes(record), pictures)
    write_figure(folder / "reward.png", reward_figure(record["arms"], title, best), dpi=150)
    write_figure(folder / "tasks.png", task_figure(record["arms"], title), dpi=150)
    if has_intent(record):
        write_figure(folder / "wanted.png", wish_figure(record["arms"], title, best), dpi=150)
    return [page, *(folder / f"{name}.png" for name in pictures)]


def overview_grids(records: Mapping[str, Mapping[str, Any]], what: str) -> list[Grid]:
    """Tables with a column for each of several comparisons, which differ in `what`."""
    arms = {name: record["arms"] for name, record in records.items()}
    paired = {name: record["paired"] for name, record in records.items()}
    title = f"Paired differences in reward by {what}, 95% intervals"
    gaps = [overview_table(paired, title, with_interval)] if any(paired.values()) else []
    unwanted = f"Unwanted tasks by {what}"
    wishes = any(has_intent(record) for record in records.values())
    beside = [overview_table(arms, unwanted, lambda arm: measured(arm, "unwanted"))] if wishes else []
    return [overview_table(arms, f"Reward by {what}", with_error), *beside, *gaps]


def write_table(
    folder: Path, title: str, facts: Sequence[str], found: Sequence[Grid], remarks: Sequence[str],
    pictures: Sequence[str] = (),
) -> Path:  # fmt: skip
    """Write table.md: tables between facts and notes, and below them pictures of the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"# {title}", "", *(f"- {fact}" for fact in facts), "", *(grid.markdown() for grid in found)]
    lines += [*(f"- {line}" for line in remarks), *(f"\n![{name}]({name}.png)" for name in pictures)]
    path = folder / "table.md"
    write_text(path, "\n".join([*lines, ""]))
    return path
