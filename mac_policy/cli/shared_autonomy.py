"""Roll out an operator with each policy that can fill in, and tabulate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from mac_policy.cli.command import Command, options_of, task_of
from mac_policy.common.checks import check_mapping
from mac_policy.common.settings import Settings
from mac_policy.evaluation.comparison import Comparison, ComparisonSettings, plan
from mac_policy.evaluation.measurement import measure
from mac_policy.evaluation.report.tables import Grid
from mac_policy.operators.manners import DEFAULT, given_manners
from mac_policy.operators.registry import make_kind


@dataclass(frozen=True)
class Options(Settings):
    """What the operator holds, and where the results are."""

    operator_dims: Any
    out: Path | None


def main(config: dict[str, Any]) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 120

    def say(shown: str | Grid) -> None:
        if isinstance(shown, Grid):
            console.print(shown.rich())
        else:
            console.print(shown, soft_wrap=True, markup=False)

    print(measure(make_plan(config), say))


def make_plan(config: Mapping[str, Any]) -> Comparison:
    """The comparison, every option of which is checked before anything is rolled out."""
    settings, options = options_of(ComparisonSettings, config), options_of(Options, config)
    task, chosen = task_of(config), given_manners(check_mapping("operator", config["operator"]))
    name = chosen.pop("kind", "")
    operator = make_kind(task.experiment.operator if name == DEFAULT else name, chosen)
    return plan(task, operator, options.operator_dims, settings, options.out)


COMMAND = Command(main, "shared_autonomy", aliases={"dataset": "task.dataset"})
