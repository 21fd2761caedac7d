"""The numbers of a comparison as they are written to results.json, and the pages made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mac_policy.evaluation.report import figures, tables
from mac_policy.evaluation.report.summary import best_arm, differences, summarise
from mac_policy.evaluation.report.tables import Grid
from mac_policy.evaluation.rollout import Results

REFERENCE = "operator+mac"


def compare(results: Results, tasks: Sequence[str], alone: Sequence[str] = ()) -> dict[str, Any]:
    """arms, paired differences of the reference arm (operator+mac, else the first) minus each other, and the best of
    the arms that act `alone`."""
    reference = REFERENCE if REFERENCE in results else next(iter(results))
    return {
        "arms": {arm: summarise(seeds, tasks) for arm, seeds in results.items()},
        "paired": differences(results, reference),
        "best_alone": best_arm(results, alone),
    }


def grids(record: dict[str, Any]) -> list[Grid]:
    """The tables of one comparison."""
    found = [tables.reward_table(record["arms"]), tables.task_table(record["arms"])]
    if record["paired"]:
        best = record["best_alone"]
        marked = {
            f"{name} (the best alone)" if best and name.endswith(f" - {best}") else name: gap
            for name, gap in record["paired"].items()
        }
        found.append(tables.difference_table(marked))
    return found


def notes(record: dict[str, Any]) -> list[str]:
    """What a reader of the table has to know."""
    arms = record["arms"].values()
    found = ["Reward is the number of tasks done in an episode; ± is the standard error."]
    if any(arm["se_over"] == "episodes" and arm["training_seeds"] for arm in arms):
        found.append(
            "One training seed: ± and intervals are over the episodes of this one training, and say nothing about "
            "another (training_seeds=[0,1,2,3,4] does)."
        )
    else:
        untrained = [name for name, arm in record["arms"].items() if not arm["training_seeds"]]
        but = f" ({', '.join(untrained)}, where nothing was trained: episodes alone)" if untrained else ""
        found.append(f"± is over training seeds; intervals resample training seeds, then episodes{but}.")
    found.append("Arms differ where zero lies outside the interval of their paired difference.")
    if record["best_alone"]:
        found.append("The best alone was chosen after the fact, which flatters it.")
    steps = {name: arm["fallback_steps"] for name, arm in record["arms"].items() if arm["fallback_steps"]}
    if steps:
        found_steps = ", ".join(f"{name} {count}" for name, count in steps.items())
        found.append(f"Steps at which the fallback repeated the last safe action: {found_steps}.")
    batch = max(arm["latency_ms"]["batch"] for arm in arms)
    found.append(f"Fill-in: median and 95th percentile of one call, which serves {batch} environments.")
    return found


def write_pages(folder: Path, title: str, facts: Sequence[str], record: dict[str, Any], best: float) -> list[Path]:
    """table.md, reward.png and tasks.png."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"# {title}", "", *[f"- {fact}" for fact in facts], ""]
    lines += [grid.markdown() for grid in grids(record)] + [f"- {note}" for note in notes(record)]
    (folder / "table.md").write_text("\n".join([*lines, "", "![reward](reward.png)", "", "![tasks](tasks.png)", ""]))
    figures.reward_figure(record["arms"], title, best).savefig(folder / "reward.png", dpi=150)
    figures.task_figure(record["arms"], title).savefig(folder / "tasks.png", dpi=150)
    return [folder / name for name in ("table.md", "reward.png", "tasks.png")]


def overview_grids(records: Mapping[str, Mapping[str, Any]], what: str) -> list[Grid]:
    """Rewards and differences of several comparisons side by side; `what` differs between them."""
    arms = {name: record["arms"] for name, record in records.items()}
    paired = {name: record["paired"] for name, record in records.items()}
    found = [tables.overview_table(arms, f"Reward by {what}")]
    if any(paired.values()):
        found.append(tables.overview_differences(paired, f"Paired differences in reward by {what}, 95% intervals"))
    return found


def write_overview_page(folder: Path, title: str, facts: Sequence[str], found: list[Grid], remarks: list[str]) -> Path:
    """table.md of several comparisons side by side."""
    lines = [f"# {title}", "", *[f"- {fact}" for fact in facts], ""]
    lines += [grid.markdown() for grid in found] + [f"- {line}" for line in remarks]
    path = folder / "table.md"
    path.write_text("\n".join([*lines, ""]))
    return path
