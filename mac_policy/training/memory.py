"""A training run that leaves no file: for models that are trained, used and kept by their owner."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from mac_policy.training.divergence import TrainingDiverged, report_divergence
from mac_policy.training.progress import Reporter
from mac_policy.training.run import Model, Run


class MemoryRun(Run[Model]):
    """A run from the first step to the last, whose best weights are kept in memory; nothing of it can be resumed.

    `folder` is never looked at. What else a run has to say is said by its kind, as for any other run.
    """

    key = "model"
    files = ()

    def go(self, resume: bool = False) -> bool:
        """Train to the end; `self.average` is the finished model. `resume` changes nothing."""
        self._kept: dict[str, Tensor] | None = None
        with Reporter(self.name, self.total, self.step, self.quiet) as reporter:
            self._loop(reporter)
        if self.settings.weights == "best" and self._kept is not None:
            self.average.load_state_dict(self._kept)
        return True

    def _compare(self, loss: float) -> None:
        better = loss < self.best
        self.stale = 0 if better else self.stale + 1
        if better:
            self.best = loss
            self._kept = copy.deepcopy(self.average.state_dict())

    def diverged(self, what: str, step: int) -> TrainingDiverged:
        return report_divergence(what, step, self.shuffle.batch(step).tolist(), Path("memory"), write=False)

    def save(self) -> None:
        """Nothing: there is no file."""

    def _write_metrics(self) -> None:
        """Nothing: the rows of metrics are in `self.rows`."""

    def write_model(self, facts: Mapping[str, Any]) -> None:
        """Nothing: the model is in `self.average`."""

    def read_facts(self) -> None:
        return None
