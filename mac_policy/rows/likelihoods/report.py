"""Reports of a comparison: tables of metrics and curves along training."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.table import Table

from mac_policy.common import files as atomic
from mac_policy.common.statistics import with_interval
from mac_policy.training.run import METRICS

PANELS = ("joint", "marginal")
AXES = {"step": "step", "seconds": "seconds of training"}

DENSITIES = {
    "": "",
    "_at-random": " (staged arms in the random mode)",
    "_proposal": " (the proposal's density)",
    "_grid": " (normalised on a grid)",
    "_ratio": " (as a ratio of marginals)",
}
OTHER_UNITS = "_nats"  # metrics that repeat another metric in other units, shown by `paper_table` only


def about_suffix(name: str) -> str:
    """The suffix of the density in a metric's name, '' for the head's own density."""
    return next((suffix for suffix in DENSITIES if suffix and name.endswith(suffix)), "")


def results_tables(record: Mapping[str, Any]) -> list[Table]:
    """One table for each density. The tables of other densities than the head's contain the arms that have them."""
    known = list(dict.fromkeys(name for arm in record["arms"].values() for name in arm.get("metrics", ())))
    known = [name for name in known if not name.endswith(OTHER_UNITS)]
    if not known:
        return [results_table(record, ["joint", "marginal", "conditional"], "")]
    tables = []
    for suffix, about in DENSITIES.items():
        shown = [name for name in known if about_suffix(name) == suffix]
        arms = {n: arm for n, arm in record["arms"].items() if not suffix or set(shown) & set(arm.get("metrics", ()))}
        if shown:
            tables.append(results_table({**record, "arms": arms}, shown, about))
    return tables


def results_table(record: Mapping[str, Any], shown: Sequence[str], about: str) -> Table:
    """A table with one row for each arm: mean, 95% interval and paired difference to the first arm, by metric."""
    arms: Mapping[str, Any] = record["arms"]
    first = next(iter(arms))
    rows = next((f"{arm['rows'][0]} test rows; " for arm in arms.values() if "rows" in arm), "")
    alone = all(len(arm["training_seeds"]) == 1 for arm in arms.values())
    table = Table(
        title=f"{record['benchmark']}{about}: {record['unit']}, {record['better']} is better; {rows}"
        f"below each mean the difference to {first}"
        f"; 95% intervals: Student t{', over the rows of one training seed' if alone else ''}"
    )
    table.add_column("arm", no_wrap=True)
    for name in (*shown, "seeds", "train s"):
        shortened = name.removesuffix(about_suffix(name)).replace("_", " ")
        table.add_column(shortened, justify="right")
    for name, arm in arms.items():
        ends = [str(len(arm["training_seeds"])), f"{np.mean(arm['train_seconds']):.0f}"]
        if "metrics" not in arm:
            said = f"diverged ({len(arm['diverged'])} of {ends[0]})"
            table.add_row(name, *[said] * len(shown), *ends)
            continue
        paired = record["paired"].get(f"{name} - {first}", {})
        table.add_row(name, *(_cell(arm["metrics"].get(column), paired.get(column)) for column in shown), *ends)
    return table


def paper_table(
    records: Sequence[Mapping[str, Any]],
    title: str,
    metric: str,
    paper: Mapping[str, Mapping[str, float]],
    sign: float = 1,
) -> Table:
    """A table of one metric on every data set: mean and standard deviation over seeds, and published values.

    paper: for each data set, the published values of the arms and of further models; sign: factor of our values.
    """
    table = Table(title=title)
    table.add_column("arm", no_wrap=True)
    for record in records:
        table.add_column(record["dataset"]["name"], justify="right")
        table.add_column("paper", justify="right")
    arms = list(dict.fromkeys(name for record in records for name in record["arms"]))
    others = [name for numbers in paper.values() for name in numbers if name not in arms]
    for name in (*arms, *dict.fromkeys(others)):
        cells = []
        for record in records:
            ours = record["arms"].get(name, {}).get("metrics", {}).get(metric)
            theirs = paper.get(record["dataset"]["name"], {}).get(name)
            cells += [_spread(ours["per_seed"], sign) if ours else "", "" if theirs is None else f"{theirs:.2f}"]
        table.add_row(name, *cells)
    return table


def _spread(per_seed: Sequence[float], sign: float) -> str:
    deviation = f" ± {np.std(per_seed, ddof=1):.2f}" if len(per_seed) > 1 else ""
    return f"{sign * np.mean(per_seed):.2f}{deviation}"


def _cell(found: Mapping[str, Any] | None, difference: Mapping[str, Any] | None) -> str:
    if found is None:
        return ""
    text = with_interval(found, ".4f")
    return text if difference is None else f"{text}\n{with_interval(difference, '+.4f')}"


def write_curves(record: Mapping[str, Any], folder: Path, scale: float, path: Path) -> Path:
    """Plot joint and marginal metrics on validation rows along training, one line for each arm (Fig. 3).

    A line is the mean over seeds. The upper panels show steps, the lower panels seconds of training. `scale` converts
    nats per variable to the unit and sign of the record.
    """
    figure = Figure(figsize=(10, 8), layout="constrained")
    panels = figure.subplots(len(AXES), len(PANELS), sharey="col")
    for number, (name, arm) in enumerate(record["arms"].items()):
        curves = [read_metrics(folder / f"{name}-s{seed}" / METRICS) for seed in arm["training_seeds"]]
        shared = min((len(curve["step"]) for curve in curves if curve), default=0)
        if not shared:
            continue
        there = [key for key in (*AXES, *PANELS) if all(key in curve for curve in curves if curve)]
        columns = {key: np.array([curve[key][:shared] for curve in curves if curve]) for key in there}
        for row, axis in zip(panels, AXES, strict=True):
            for panel, query in zip(row, PANELS, strict=True):
                if query not in columns:
                    continue
                draw_curve(panel, columns[axis].mean(0), scale * columns[query], f"C{number}", name)
    for row, label in zip(panels, AXES.values(), strict=True):
        for panel, query in zip(row, PANELS, strict=True):
            panel.set(xlabel=label, ylabel=f"{query}, {record['unit']}", title=f"{query} on validation rows")
    if panels[0][0].lines:
        panels[0][0].legend()
    figure.suptitle(record["benchmark"])
    return atomic.write_figure(path, figure)


def draw_curve(panel: Axes, at: NDArray[np.float64], lines: NDArray[np.float64], color: str, label: str) -> None:
    """Plot the mean of `lines` (seeds, points) and a band from their minimum to their maximum."""
    panel.plot(at, lines.mean(0), color=color, label=label)
    if len(lines) > 1:
        panel.fill_between(at, lines.min(0), lines.max(0), color=color, alpha=0.15, lw=0)


def read_metrics(path: Path) -> dict[str, list[float]]:
    """Read the columns of a run's metrics. The mapping is empty if there is no file."""
    if not path.exists():
        return {}
    with path.open() as file:
        rows = list(csv.DictReader(file))
    return {key: [float(row[key]) for row in rows] for key in (rows[0] if rows else {})}
