"""A training with a folder: it can be killed at any moment and resumed, and leaves its model, metrics and state."""

from __future__ import annotations

import copy
import json
import math
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor, nn

from mac_policy.common import files as atomic
from mac_policy.common import folders
from mac_policy.common.files import CheckpointError
from mac_policy.common.folders import TrainingFacts
from mac_policy.common.locks import InUse, locked
from mac_policy.training import metrics, state
from mac_policy.training.fabric import Fabric
from mac_policy.training.loop import Loop, Model, TrainingDiverged
from mac_policy.training.progress import Reporter
from mac_policy.training.settings import TrainSettings
from mac_policy.training.state import Facts, ResumeError, check_same_run

METRICS, BEST, DIVERGED = "metrics.csv", "best.safetensors", "diverged.json"


class Run(Loop[Model]):
    """One training and its folder. A run that was killed resumes from its last saved state and ends with the same
    weights as a run that never was.

    A subclass also defines what a finished model leaves behind, and the facts that were left before.
    """

    key: ClassVar[str]
    """The prefix of the model's tensors in the saved state."""
    files: ClassVar[tuple[str, ...]]
    """The files that a run may leave besides the files of this module."""

    def __init__(
        self,
        model: Model,
        rows: int,
        settings: TrainSettings,
        folder: Path,
        *,
        name: str,
        identity: Mapping[str, Any],
        seed: int,
        fabric: Fabric,
        quiet: bool = False,
    ) -> None:
        self.folder, self.identity, self.resumed_from = folder, dict(identity), 0
        self._saved = time.perf_counter()
        super().__init__(model, rows, settings, name=name, seed=seed, fabric=fabric, quiet=quiet)

    # ---- what a subclass defines ----

    @abstractmethod
    def write_model(self, facts: Mapping[str, Any]) -> None:
        """Write `self.average` and `facts` (on the first process), each file atomically, the facts last."""

    @abstractmethod
    def read_facts(self) -> tuple[TrainingFacts, Mapping[str, Any]] | None:
        """The facts and the identity of the model in the folder; None without one."""

    def complete(self) -> None:
        """Fit what is fitted to the trained model, on every process."""

    def write_more(self) -> None:
        """Write what a finished run leaves besides its model (on the first process), before the model."""

    # ---- a whole run ----

    def go(self, resume: bool = True) -> bool:
        """Train to the end from the state of the folder; False if the folder holds the finished run.

        `resume=False` starts afresh, whatever the folder holds.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        if resume and self._finished():
            self._tidy()
            return False
        with locked(self.folder) if self.fabric.is_global_zero else nullcontext():
            if resume and self.fabric.world_size == 1 and self._finished():  # by one that has just let go of the folder
                return False
            if self.fabric.is_global_zero:
                atomic.remove_litter(self.folder)
                for name in () if resume else (*self.files, state.STATE, state.BEFORE, BEST, METRICS, DIVERGED):
                    (self.folder / name).unlink(missing_ok=True)
            if resume:
                self._resume()
            self._saved = time.perf_counter()
            self.fit()
            self._finish()
        return True

    def after_step(self, reporter: Reporter) -> None:
        if time.perf_counter() - self._saved >= self.settings.save_seconds:
            self._try(self.save, reporter)
            self._saved = time.perf_counter()

    def after_validation(self, reporter: Reporter) -> None:
        self._try(self._write_metrics, reporter)

    def keep_best(self) -> None:
        if self.fabric.is_global_zero:
            self.best_weights = self.average.state_dict()
            try:
                self._write_best()
            except OSError:  # a full disk: they are kept in memory, and no state is saved before they are written
                self.best_weights = copy.deepcopy(self.best_weights)

    def _write_best(self) -> None:
        if self.best_weights is not None:
            atomic.write_tensors(self.folder / BEST, self.best_weights)
            self.best_weights = None

    def diverged(self, what: str, step: int) -> TrainingDiverged:
        rows = self.shuffle.batch(step).tolist()
        if self.fabric.is_global_zero:
            self.folder.mkdir(parents=True, exist_ok=True)
            atomic.write_text(self.folder / DIVERGED, json.dumps({"step": step, "rows": rows}) + "\n")
        good = self.read_facts() is not None
        kept = f"the last good checkpoint is in {self.folder}" if good else "there is no checkpoint yet"
        return TrainingDiverged(what, step, rows, f" (all {len(rows)} in {self.folder / DIVERGED}); {kept}")

    def _finish(self) -> None:
        self.fabric.barrier()  # the first process may still be writing the best weights
        if self.fabric.is_global_zero:
            self._write_best()
        self.fabric.barrier()
        if self.settings.weights == "best" and (self.folder / BEST).exists():
            folders.fill(self.average, self._read_best(), self.folder / BEST)
        self.complete()
        if self.fabric.is_global_zero:
            self.write_more()
            self.write_model(self._facts(finished=True))  # the last file that is written says that all is done
            self._remove_states()
        self.fabric.barrier()

    def _remove_states(self) -> None:
        for name in (state.STATE, state.BEFORE):
            (self.folder / name).unlink(missing_ok=True)

    def _tidy(self) -> None:
        """Remove the states that a process has left which was killed after its last write."""
        if self.fabric.is_global_zero and any((self.folder / name).exists() for name in (state.STATE, state.BEFORE)):
            with suppress(InUse, OSError), locked(self.folder):
                self._remove_states()

    def _read_best(self) -> dict[str, Tensor]:
        try:
            return folders.read_weights(self.folder / BEST)
        except CheckpointError as error:
            raise ResumeError(f"{error}: give resume=false to train again") from error

    # ---- files ----

    @property
    def modules(self) -> dict[str, nn.Module]:
        found: dict[str, nn.Module] = {self.key: self.model}
        return found | ({"average": self.average} if self.settings.ema else {})

    def save(self) -> None:
        """The best weights where they could not be written, the state to resume from, then the model as it is. Each
        file is replaced as a whole."""
        self._write_best()
        facts = Facts(
            self.step, self.seconds, self.best, self.stale, float(self.running), tuple(self.rows), self.identity
        )
        state.save_state(self.folder, self.modules, self.optimizer, facts)
        self.write_model(self._facts(finished=False))

    def _write_metrics(self) -> None:
        metrics.write_csv(self.folder / METRICS, self.rows)
        if self.settings.tensorboard:
            metrics.write_events(self.folder, self.rows[-1])

    def _try(self, write: Callable[[], None], reporter: Reporter) -> None:
        """Write on the first process. A full disk costs this one write, not the run."""
        if not self.fabric.is_global_zero:
            return
        try:
            write()
        except OSError as error:
            reporter.note(f"could not write at step {self.step} ({error}); earlier files stay, training continues")

    def _facts(self, finished: bool) -> dict[str, Any]:
        loss = self.rows[-1].get("validation_loss") if self.rows else None
        return {
            "steps": self.step,
            "seconds": round(self.seconds, 2),
            "finished": finished,
            "validation_loss": loss if loss is not None and math.isfinite(loss) else None,
        }

    def _finished(self) -> bool:
        found = self.read_facts()
        if found is None or not found[0].finished:
            return False
        facts, before = found
        check_same_run(self.folder, self.identity, before)
        self.step, self.seconds = facts.steps, facts.seconds
        self.resumed_from = self.step
        self.rows = [{"validation_loss": math.nan if facts.validation_loss is None else facts.validation_loss}]
        return True

    def _resume(self) -> None:
        found = state.read_state(self.folder)
        if found is None:
            return
        facts = found.facts
        check_same_run(self.folder, self.identity, facts.fingerprint)
        if facts.step > self.total:
            raise ResumeError(f"{found.path} is damaged: it is of step {facts.step} of {self.total}")
        state.load_state(found, self.modules, self.optimizer)
        if self.fabric.is_global_zero and found.path.name == state.BEFORE:
            (self.folder / state.STATE).unlink(missing_ok=True)  # damaged: it must not take the place of this one
        self.step = self.resumed_from = facts.step
        self.seconds, self.best, self.stale = facts.seconds, facts.best, facts.stale
        self.rows = [dict(row) for row in facts.rows]
        self.running.fill_(facts.running)

    @property
    def validation_loss(self) -> float:
        """The last one measured; NaN without any."""
        return self.rows[-1].get("validation_loss", math.nan) if self.rows else math.nan
