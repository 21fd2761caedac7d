"""A training run of any module that gives its own loss: steps, resuming, measuring, and what it leaves behind."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from mac_policy.common import files as atomic
from mac_policy.training import average, identity, metrics, state
from mac_policy.training.divergence import DIVERGED, TrainingDiverged, report_divergence
from mac_policy.training.progress import Reporter
from mac_policy.training.settings import TrainSettings, rate
from mac_policy.training.setup import make_optimizer
from mac_policy.training.streams import Shuffle, stream

METRICS, BEST = "metrics.csv", "best.safetensors"

Model = TypeVar("Model", bound=nn.Module)


class Run(ABC, Generic[Model]):
    """One run: its model, its optimiser and where it stands.

    The model's `forward(*inputs)` is the mean loss of a batch. A kind of run says what a step's inputs are, what is
    measured along the way, and what a finished model leaves; the rest is here. A run that was killed goes on from its
    last saved state and ends with the weights it would have had.
    """

    key: ClassVar[str]
    """What the model's tensors are called in the saved state."""
    files: ClassVar[tuple[str, ...]]
    """What a run may leave of its own, besides the files of this module."""

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
        if settings.tensorboard:
            metrics.check_tensorboard()
        if settings.batch_size % fabric.world_size:
            raise ValueError(
                f"batch_size {settings.batch_size} must be a multiple of the {fabric.world_size} processes"
            )
        self.model, self.settings, self.folder, self.name = model, settings, folder, name
        self.identity, self.seed, self.fabric = dict(identity), seed, fabric
        self.total = settings.total_steps(rows)
        self.shuffle = Shuffle(rows, settings.batch_size, seed)
        self.optimizer = make_optimizer(model, settings)
        self.module, self.wrapped = fabric.setup(model, self.optimizer)
        self.average: Model = average.averaged_copy(model) if settings.ema else model
        self.step, self.seconds, self.best, self.stale, self.resumed_from = 0, 0.0, math.inf, 0, 0
        self.rows: list[dict[str, float]] = []
        self.running = torch.zeros((), dtype=torch.float64, device=fabric.device)
        self.quiet = quiet or not fabric.is_global_zero

    # ---- what a kind of run says ----

    @abstractmethod
    def inputs(self, step: int) -> tuple[Any, ...]:
        """This process's share of what the model's `forward` takes in a step, on its device."""

    @abstractmethod
    def validate(self) -> dict[str, float]:
        """What is measured of `self.average` now and then; `validation_loss` decides which weights are the best."""

    @abstractmethod
    def write_model(self, facts: Mapping[str, Any]) -> None:
        """Write `self.average` and `facts` (on the first process), each file atomically, the facts last."""

    @abstractmethod
    def read_facts(self) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
        """The facts and the identity of what was written last; None where nothing was."""

    def write_more(self) -> None:
        """What a finished run leaves besides its model (on the first process), before the model."""

    @property
    def share(self) -> slice:
        """This process's part of a batch."""
        n, world, rank = self.settings.batch_size, self.fabric.world_size, self.fabric.global_rank
        return slice(rank * n // world, (rank + 1) * n // world)

    # ---- one step ----

    def backward(self, step: int) -> Tensor:
        """The loss of a step, with its gradient (averaged over the processes) in the weights."""
        inputs = self.inputs(step)
        self.wrapped.zero_grad(set_to_none=True)
        loss = self._loss(step, inputs)
        # The mean over all processes: each of them stops at the same step, none waits for one that has stopped.
        mean: Tensor = self.fabric.all_reduce(loss.detach().clone())  # type: ignore[assignment]
        if not torch.isfinite(mean):
            raise self.diverged("loss", step)
        self.fabric.backward(loss)
        return mean

    def _loss(self, step: int, inputs: tuple[Any, ...]) -> Tensor:
        """What layers draw for themselves (dropout) comes from torch's global generators: they are set for the step,
        so that a run that goes on draws what it would have drawn, and are left as they were."""
        devices = [self.fabric.device] if self.fabric.device.type == "cuda" else []
        with torch.random.fork_rng(devices):
            torch.manual_seed(stream(self.seed, f"layers {self.fabric.global_rank}", step).initial_seed())
            loss: Tensor = self.module(*inputs)
        return loss

    def advance(self) -> float:
        """One optimiser step; the loss."""
        s = self.settings
        for group in self.optimizer.param_groups:
            group["lr"] = s.learning_rate * rate(self.step, self.total, s.warmup, s.schedule)
        loss = self.backward(self.step)
        norm = self.fabric.clip_gradients(
            self.module, self.wrapped, max_norm=s.clip or math.inf, error_if_nonfinite=False
        )
        if norm is not None and not torch.isfinite(norm):
            raise self.diverged("gradient", self.step)
        self.wrapped.step()
        if s.ema:
            average.update(self.average, self.model, s.ema, self.step)
        self.running += loss
        self.step += 1
        return float(loss)

    def diverged(self, what: str, step: int) -> TrainingDiverged:
        rows = self.shuffle.batch(step).tolist()
        return report_divergence(what, step, rows, self.folder, write=self.fabric.is_global_zero)

    # ---- a whole run ----

    def go(self, resume: bool = True) -> bool:
        """Train to the end from where the folder stands; False when that had been done before.

        `resume=False` starts afresh, whatever the folder holds.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        if resume and self._finished():
            return False
        if self.fabric.is_global_zero:
            atomic.remove_litter(self.folder)
            for name in () if resume else (*self.files, state.STATE, BEST, METRICS, DIVERGED):
                (self.folder / name).unlink(missing_ok=True)
        if resume:
            self._resume()
        with Reporter(self.name, self.total, self.step, self.quiet) as reporter:
            if self.resumed_from:
                reporter.note(f"resumed {self.folder} at step {self.step}")
            self._loop(reporter)
        self._finish()
        return True

    def _loop(self, reporter: Reporter) -> None:
        interval = max(1, self.total // self.settings.validations)
        begun, saved, before = time.perf_counter(), time.perf_counter(), self.seconds
        while self.step < self.total:
            reporter.step(self.step + 1, self.advance())
            self.seconds = before + time.perf_counter() - begun
            if self.step % interval == 0 or self.step == self.total:
                reporter.line(self._measure(self.step % interval or interval, reporter))
                if self.settings.patience and self.stale >= self.settings.patience:
                    reporter.note(f"stopped at step {self.step}: no better loss in {self.stale} validations")
                    break
            if time.perf_counter() - saved >= self.settings.save_seconds:
                self._try(self.save, reporter)
                saved = time.perf_counter()

    def _measure(self, steps: int, reporter: Reporter) -> dict[str, float]:
        """A row of metrics: the mean loss of the last `steps` and what the validation says."""
        loss = float(self.running) / steps
        row = {"step": self.step, "seconds": self.seconds, "rate": reporter.rate(), "loss": loss}
        self.running.zero_()
        row |= self.validate()
        if "validation_loss" in row:
            self._compare(row["validation_loss"])
        self.rows.append(row)
        self._try(self._write_metrics, reporter)
        return row

    def _write_metrics(self) -> None:
        metrics.write_csv(self.folder / METRICS, self.rows)
        if self.settings.tensorboard:
            metrics.write_events(self.folder, self.rows[-1])

    def _compare(self, loss: float) -> None:
        better = loss < self.best
        self.stale = 0 if better else self.stale + 1
        if better:
            self.best = loss
            if self.fabric.is_global_zero:  # without these weights a later choice of the best would be a wrong one
                atomic.write_tensors(self.folder / BEST, self.average.state_dict())

    def _finish(self) -> None:
        self.fabric.barrier()  # the first process may still be writing the best weights
        if self.settings.weights == "best" and (self.folder / BEST).exists():
            self.average.load_state_dict(atomic.read_tensors(self.folder / BEST))
        if self.fabric.is_global_zero:
            self.write_more()
            self.write_model(self._facts(finished=True))  # what says that all is done comes last
            (self.folder / state.STATE).unlink(missing_ok=True)
        self.fabric.barrier()

    # ---- files ----

    @property
    def modules(self) -> dict[str, nn.Module]:
        found: dict[str, nn.Module] = {self.key: self.model}
        return found | ({"average": self.average} if self.settings.ema else {})

    def save(self) -> None:
        """The state to resume from, then the model as it is. Each file is replaced as a whole."""
        facts = {
            "step": self.step,
            "seconds": self.seconds,
            "best": self.best,
            "stale": self.stale,
            "running": float(self.running),
            "rows": self.rows,
            "fingerprint": self.identity,
        }
        state.save_state(self.folder, self.modules, self.optimizer, facts)
        self.write_model(self._facts(finished=False))

    def _try(self, write: Callable[[], None], reporter: Reporter) -> None:
        """Write on the first process; a disk that is full costs this one write, not the run."""
        if not self.fabric.is_global_zero:
            return
        try:
            write()
        except OSError as error:
            reporter.note(f"could not write at step {self.step} ({error}); what was saved before stays, going on")

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
        if found is None or not found[0].get("finished"):
            return False
        facts, before = found
        identity.check_same_run(self.folder, self.identity, before)
        self.step, self.seconds = facts["steps"], facts["seconds"]
        self.resumed_from = self.step
        loss = facts["validation_loss"]
        self.rows = [{"validation_loss": math.nan if loss is None else loss}]
        return True

    def _resume(self) -> None:
        facts = state.read_facts(self.folder)
        if facts is None:
            return
        identity.check_same_run(self.folder, self.identity, facts["fingerprint"])
        state.load_state(self.folder, self.modules, self.optimizer)
        self.step = self.resumed_from = facts["step"]
        self.seconds, self.best, self.stale = facts["seconds"], facts["best"], facts["stale"]
        self.rows = facts["rows"]
        self.running.fill_(facts["running"])

    @property
    def validation_loss(self) -> float:
        """The last one measured; NaN without any."""
        return self.rows[-1].get("validation_loss", math.nan) if self.rows else math.nan
