"""The metrics of a run: rows of numbers, as a table in a file, as a curve and as TensorBoard events."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from mac_policy.common import files as atomic

Row = Mapping[str, float]


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    """One line for each row, with the columns of all."""
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, fieldnames=dict.fromkeys(key for row in rows for key in row), lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: f"{v:.8g}" for k, v in row.items()} for row in rows)
    atomic.write_text(path, text.getvalue())


def write_curve(path: Path, rows: Sequence[Row], title: str) -> None:
    """A PNG of training and validation loss over the steps, and of the coverage where it was measured.

    Without matplotlib there is a warning and no picture.
    """
    if find_spec("matplotlib") is None:
        warnings.warn(f"matplotlib is not installed: {path.name} is not written", stacklevel=2)
        return
    from matplotlib.figure import Figure

    extra = [key for key in (rows[0] if rows else {}) if key.startswith("coverage")]
    figure = Figure(figsize=(6, 3 + 2 * bool(extra)), layout="constrained")
    axes = figure.subplots(1 + bool(extra), 1, squeeze=False)[:, 0]
    steps = [row["step"] for row in rows]
    for key in ("loss", "validation_loss"):
        if rows and key in rows[0]:
            axes[0].plot(steps, [row[key] for row in rows], label=key.replace("_", " "))
    axes[0].set(title=title, ylabel="loss")
    for key in extra:
        axes[1].plot(steps, [row[key] for row in rows], label=f"{key.removeprefix('coverage')}% interval")
        axes[1].axhline(float(key.removeprefix("coverage")) / 100, color="grey", lw=0.5)
        axes[1].set(ylabel="coverage", ylim=(0, 1))
    for panel in axes:
        panel.set(xlabel="step")
        if panel.get_legend_handles_labels()[0]:
            panel.legend()
    atomic.write_figure(path, figure)


def write_events(folder: Path, row: Row) -> None:
    """Write the row as TensorBoard events; needs the package tensorboard."""
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(folder / "tensorboard")) as writer:
        for key, value in row.items():
            if key != "step":
                writer.add_scalar(key, value, int(row["step"]))
