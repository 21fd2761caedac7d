"""Tables and figures of an acquisition experiment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

from mac_policy.common import files as atomic
from mac_policy.common.statistics import with_interval
from mac_policy.rows.acquisition.summary import METRICS

INTERVALS = "95% intervals: Student t over splits (over rows for a single split)"
FORMS = {"needed": ".2f", "fewer": "+.2f"}


MEANING = (
    "area: the mean error over 0, 1, 2, ... known variables, which compares arms and orders.\n"
    "needed: the number of known variables at which the error is half-way between the errors with none and with all\n"
    "variables known, in the arm's own random order: not to be compared between arms. fewer: than at random.\n"
    f"{INTERVALS}.\n"
    "The errors at each number of known variables are in results.json and curves.png."
)


def results_table(record: Mapping[str, Any], metric: str) -> Table:
    """A row for each arm and order, with the area under the curve of an error and the number of variables needed."""
    table = Table(title=f"{record['benchmark']}: {metric}, {record['unit'][metric]}", caption=_without(record, metric))
    for name in ("arm", "order"):
        table.add_column(name, no_wrap=True)
    for name in ("area", "needed", "fewer"):
        table.add_column(name, justify="right")
    for name, arm in record["arms"].items():
        if "diverged" in arm:
            table.add_row(name, "diverged")
            continue
        for order in record["orders"]:
            shown = name if order == next(iter(record["orders"])) else ""
            table.add_row(shown, order, *_cells(arm[metric]["orders"][order], order))
    return table


def paired_table(record: Mapping[str, Any]) -> Table:
    """A row for each pair of arms, with the paired difference of the areas under the curve in each order."""
    table = Table(title=f"{record['benchmark']}: paired differences of the area between two arms")
    table.add_column("arms", no_wrap=True)
    table.add_column("order", no_wrap=True)
    for metric in METRICS:
        table.add_column(f"{metric}: area", justify="right")
    for name, found in record["paired"].items():
        for order in record["orders"]:
            cells = [with_interval(found[metric][order], "+.3f") for metric in METRICS]
            table.add_row(name if order == next(iter(record["orders"])) else "", order, *cells)
    return table


def _without(record: Mapping[str, Any], metric: str) -> str | None:
    """A caption that names the arms without a half-way error."""
    arms = record["arms"].items()
    found = [name for name, arm in arms if "diverged" not in arm and arm[metric]["half_way"] is None]
    text = f"-: in a split the error with all variables known is not below that with none known: {', '.join(found)}"
    return text if found else None


def _cells(found: Mapping[str, Any], order: str) -> tuple[str, str, str]:
    needed, fewer = ("-" if found[name] is None else with_interval(found[name], form) for name, form in FORMS.items())
    return with_interval(found["area"], ".3f"), needed, "" if order == "random" else fewer


def write_plot(record: Mapping[str, Any], path: Path) -> Path:
    """Plot both errors against the number of known variables: one panel per arm, one line per order. The last panel
    compares the arms in the orders that they choose."""
    arms = {name: arm for name, arm in record["arms"].items() if "diverged" not in arm}
    figure = Figure(figsize=(3.2 * (len(arms) + 1), 6), layout="constrained")
    panels = figure.subplots(len(METRICS), len(arms) + 1, sharex=True, sharey="row", squeeze=False)
    for row, metric in zip(panels, METRICS, strict=True):
        for place, (name, arm) in enumerate(arms.items()):
            for number, order in enumerate(record["orders"]):
                _draw(row[place], arm[metric]["orders"][order], order, f"C{number}")
            if arm[metric]["half_way"]:
                row[place].axhline(arm[metric]["half_way"]["mean"], color="0.6", lw=0.8, ls=":")
            if "model" in record["orders"]:
                _draw(row[-1], arm[metric]["orders"]["model"], name, f"C{place}")
        row[0].set_ylabel(f"{metric}, {record['unit'][metric]}")
    for panel, title in zip(panels[0], (*arms, "order chosen by the model"), strict=True):
        panel.set_title(title)
    for panel in (panels[0][0], panels[0][-1]):
        if panel.lines:
            panel.legend(fontsize="small")
    for panel in panels[-1]:
        panel.set_xlabel("known variables")
    figure.suptitle(f"{record['benchmark']}: error of the target. {INTERVALS}")
    return atomic.write_figure(path, figure, 110)


def _draw(panel: Any, found: Mapping[str, Any], label: str, color: str) -> None:
    panel.plot(found["mean"], color=color, label=label, marker=".")
    if found["ci95"] is not None:
        panel.fill_between(range(len(found["mean"])), *np.array(found["ci95"]).T, color=color, alpha=0.15, lw=0)
