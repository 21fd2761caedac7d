"""Roll out an operator with each policy that can fill in, and tabulate. `--help` explains each option."""

from __future__ import annotations

from typing import Any

from _shared_autonomy import make_plan
from rich.console import Console

from mac_policy.cli.command import Command
from mac_policy.cli.main import run
from mac_policy.evaluation.measurement import measure
from mac_policy.evaluation.report.tables import Grid

CONSOLE = Console(highlight=False)
if not CONSOLE.is_terminal:
    CONSOLE.width = 120


def main(options: dict[str, Any]) -> None:
    print(measure(make_plan(options), say))


def say(shown: str | Grid) -> None:
    if isinstance(shown, Grid):
        CONSOLE.print(shown.rich())
    else:
        CONSOLE.print(shown, soft_wrap=True, markup=False)


if __name__ == "__main__":
    run(Command(main, "shared_autonomy"))
