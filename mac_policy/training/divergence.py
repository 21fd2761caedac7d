"""What is said and kept when training leaves the numbers."""

from __future__ import annotations

import json
from pathlib import Path

from mac_policy.common import files as atomic
from mac_policy.policies import checkpoint

DIVERGED = "diverged.json"


class TrainingDiverged(RuntimeError):
    """The loss or its gradient is no number; `step` and `rows` say where, the last good checkpoint is kept."""

    def __init__(self, what: str, step: int, rows: list[int], folder: Path) -> None:
        self.step, self.rows = step, rows
        kept = f"the last good checkpoint is in {folder}" if (folder / checkpoint.WEIGHTS).exists() else "none yet"
        super().__init__(
            f"the {what} at step {step} is not finite; batch rows {rows[:8]}{'...' if len(rows) > 8 else ''} "
            f"(all {len(rows)} in {folder / DIVERGED}); {kept}"
        )


def report_divergence(what: str, step: int, rows: list[int], folder: Path, *, write: bool) -> TrainingDiverged:
    """The error to raise; with `write` all rows of the batch go into diverged.json."""
    if write:
        folder.mkdir(parents=True, exist_ok=True)
        atomic.write_text(folder / DIVERGED, json.dumps({"step": step, "rows": rows}) + "\n")
    return TrainingDiverged(what, step, rows, folder)
