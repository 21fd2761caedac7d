"""The record of a comparison for results.json, and the tables, notes and figures made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mac_policy.common.statistics import SEEDS
from mac_policy.evaluation.report import figures, tables
from mac_policy.evaluation.report.summary import best_arm, differences, summarise
from mac_policy.evaluation.report.tables import Grid
from mac_policy.evaluation.rollout import Results

REFERENCE = "operator+mac"


def compare(results: Results, tasks: Sequence[str], alone: Sequence[str] = ()) -> dict[str, Any]:
    """The summary of each arm, the paired differences between the reference arm (operator+mac, otherwise the first) and
    each other arm, and the best of the arms `alone`, in which no operator acts."""
    reference = REFERENCE if REFERENCE in results else next(iter(results))
    return {
        "arms": {arm: summarise(seeds, tasks) for arm, seeds in results.items()},
        "paired": differences(results, reference),
        "best_alone": best_arm(results, alone),
    }


def grids(record: Mapping[str, Any]) -> list[Grid]:
    """The tables of one comparison."""
    found = [tables.reward_table(record["arms"]), tables.task_table(record["arms"])]
    if record["paired"]:
        best = record["best_alone"]
        marked = {
            f"{name} (the best policy alone)" if best and name.endswith(f" - {best}") else name: gap
            for name, gap in record["paired"].items()
        }
        found.append(tables.difference_table(marked))
    return found


def notes(record: Mapping[str, Any]) -> list[str]:
    """Sentences that a reader of the tables needs."""
    arms = record["arms"].values()
    found = ["Reward: goals completed per episode. ±: standard error of the mean. Intervals: Student's t."]
    if any(len(arm["training_seeds"]) == 1 for arm in arms):
        found.append(
            "One training seed: ± and intervals are over the episodes of this one training and do not cover another "
            "training (use training_seeds=[0,1,2,3,4])."
        )
    else:
        others = [name for name, arm in record["arms"].items() if arm["se_over"] != SEEDS]
        but = f" (over episodes for {', '.join(others)}: untrained, or equal for all training seeds)" if others else ""
        found.append(f"± and intervals are over training seeds{but}.")
    found.append("Two arms differ if zero lies outside the 95% interval of their paired difference.")
    if record["best_alone"]:
        found.append("The best policy alone is selected on these episodes, so its mean is biased upwards.")
    steps = {name: arm["fallback_steps"] for name, arm in record["arms"].items() if arm["fallback_steps"]}
    if steps:
        found_steps = ", ".join(f"{name} {count}" for name, count in steps.items())
        found.append(f"Steps at which the fallback repeated the last safe action: {found_steps}.")
    batch = max(arm["latency_ms"]["batch"] for arm in arms)
    found.append(f"Fill-in time: median and 95th percentile of one call, which serves {batch} environments.")
    return found


def write_pages(folder: Path, title: str, facts: Sequence[str], record: Mapping[str, Any], best: float) -> list[Path]:
    """Write table.md, reward.png and tasks.png."""
    page = write_table(folder, title, facts, grids(record), notes(record), ("reward", "tasks"))
    figures.reward_figure(record["arms"], title, best).savefig(folder / "reward.png", dpi=150)
    figures.task_figure(record["arms"], title).savefig(folder / "tasks.png", dpi=150)
    return [page, folder / "reward.png", folder / "tasks.png"]


def overview_grids(records: Mapping[str, Mapping[str, Any]], what: str) -> list[Grid]:
    """Tables with a column for each of several comparisons, which differ in `what`."""
    arms = {name: record["arms"] for name, record in records.items()}
    paired = {name: record["paired"] for name, record in records.items()}
    title = f"Paired differences in reward by {what}, 95% intervals"
    gaps = [tables.overview_table(paired, title, tables.with_interval)] if any(paired.values()) else []
    return [tables.overview_table(arms, f"Reward by {what}", tables.with_error), *gaps]


def write_table(
    folder: Path, title: str, facts: Sequence[str], found: Sequence[Grid], remarks: Sequence[str],
    pictures: Sequence[str] = (),
) -> Path:  # fmt: skip
    """Write table.md: tables between facts and notes, and below them pictures of the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"# {title}", "", *(f"- {fact}" for fact in facts), "", *(grid.markdown() for grid in found)]
    lines += [*(f"- {line}" for line in remarks), *(f"\n![{name}]({name}.png)" for name in pictures)]
    path = folder / "table.md"
    path.write_text("\n".join([*lines, ""]))
    return path
