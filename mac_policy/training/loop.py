"""The loop of a training, in memory: steps, validations, early stopping and the choice of the weights."""

from __future__ import annotations

import copy
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from mac_policy.training.fabric import Fabric
from mac_policy.training.optimizer import make_optimizer, rate, update_average
from mac_policy.training.progress import Reporter
from mac_policy.training.settings import TrainSettings
from mac_policy.training.streams import Shuffle, stream

Model = TypeVar("Model", bound=nn.Module)
UNSHOWN = ("step", "seconds", "rate")  # metrics that the progress shows in another way


class TrainingDiverged(RuntimeError):
    """The loss or its gradient is NaN or infinite at `step`; `rows` are the rows of its batch.

    >>> str(TrainingDiverged("loss", 12, [3, 8]))
    'the loss at step 12 is NaN or infinite; batch rows [3, 8]'
    """

    def __init__(self, what: str, step: int, rows: list[int], kept: str = "") -> None:
        self.step, self.rows = step, rows
        shown = f"{rows[:8]}{'...' if len(rows) > 8 else ''}"
        super().__init__(f"the {what} at step {step} is NaN or infinite; batch rows {shown}{kept}")


class Loop(ABC, Generic[Model]):
    """A training of a model whose `forward(*inputs)` is the mean loss of a batch.

    A subclass defines the inputs of a step and what is measured in a validation.
    """

    def __init__(
        self,
        model: Model,
        rows: int,
        settings: TrainSettings,
        *,
        name: str,
        seed: int,
        fabric: Fabric,
        quiet: bool = False,
    ) -> None:
        if settings.batch_size % fabric.world_size:
            raise ValueError(
                f"batch_size {settings.batch_size} must be a multiple of the {fabric.world_size} processes"
            )
        self.model, self.settings, self.name, self.seed, self.fabric = model, settings, name, seed, fabric
        self.total = settings.total_steps(rows)
        self.shuffle = Shuffle(rows, settings.batch_size, seed)
        self.optimizer = make_optimizer(model, settings)
        self.module, self.wrapped = fabric.setup(model, self.optimizer)
        self.average: Model = copy.deepcopy(model).requires_grad_(False).eval() if settings.ema else model
        self.weights: tuple[list[Tensor], list[Tensor]] = (list(self.average.parameters()), list(model.parameters()))
        self.step, self.seconds, self.best, self.stale = 0, 0.0, math.inf, 0
        self.rows: list[dict[str, float]] = []
        self.running = torch.zeros((), dtype=torch.float64, device=fabric.device)
        self.best_weights: Mapping[str, Tensor] | None = None
        self.quiet = quiet or not fabric.is_global_zero

    # ---- what a subclass defines ----

    @abstractmethod
    def inputs(self, step: int) -> tuple[Any, ...]:
        """The arguments of the model's `forward` in a step: this process's share of the batch, on its device."""

    @abstractmethod
    def validate(self) -> dict[str, float]:
        """Measurements of `self.average`. `validation_loss` decides which weights are the best."""

    def keep_best(self) -> None:
        """Keep the weights of `self.average`, the best so far."""
        self.best_weights = copy.deepcopy(self.average.state_dict())

    def is_due(self) -> bool:
        """Whether a validation follows the step that has just been made; one always follows the last step."""
        return self.step % max(1, self.total // self.settings.validations) == 0

    def has_stalled(self) -> bool:
        """Whether the training stops early."""
        return 0 < self.settings.patience <= self.stale

    def describe(self, row: Mapping[str, float]) -> str:
        """A row of metrics as the progress shows it."""
        return ", ".join(f"{name} {value:.4g}" for name, value in row.items() if name not in UNSHOWN)

    def after_validation(self, reporter: Reporter) -> None:
        """Called when a row of metrics has been added to `self.rows`."""

    def after_step(self, reporter: Reporter) -> None:
        """Called after every step."""

    def diverged(self, what: str, step: int) -> TrainingDiverged:
        """The error to raise."""
        return TrainingDiverged(what, step, self.shuffle.batch(step).tolist())

    # ---- one step ----

    @property
    def share(self) -> slice:
        """This process's part of a batch."""
        n, world, rank = self.settings.batch_size, self.fabric.world_size, self.fabric.global_rank
        return slice(rank * n // world, (rank + 1) * n // world)

    def backward(self, step: int) -> Tensor:
        """The loss of a step. Its gradient, averaged over the processes, is left in the weights."""
        inputs = self.inputs(step)
        self.wrapped.zero_grad(set_to_none=True)
        loss = self._loss(step, inputs)
        # The mean over all processes: every process stops at the same step, and none waits for one that has stopped.
        mean: Tensor = self.fabric.all_reduce(loss.detach().clone())
        if not torch.isfinite(mean):
            raise self.diverged("loss", step)
        self.fabric.backward(loss)
        return mean

    def _loss(self, step: int, inputs: tuple[Any, ...]) -> Tensor:
        """Layers draw (dropout) from torch's global generators. These are seeded for the step, so that a resumed run
        draws the same numbers, and restored after it."""
        devices = [self.fabric.device] if self.fabric.device.type == "cuda" else []
        with torch.random.fork_rng(devices):
            seed = stream(self.seed, f"layers {self.fabric.global_rank}", step).initial_seed()
            torch.default_generator.manual_seed(seed)
            if self.fabric.device.type != "cpu":
                torch.manual_seed(seed)  # of all devices; slow where there are none
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
            update_average(*self.weights, s.ema, self.step)
        self.running += loss
        self.step += 1
        return float(loss)

    # ---- all steps ----

    def fit(self) -> None:
        """Train from `self.step` to the end. `self.average` is the finished model."""
        with Reporter(self.name, self.total, self.step, self.quiet) as reporter:
            if self.step:
                reporter.note(f"resumed {self.name} at step {self.step}")
            self._steps(reporter)
        if self.settings.weights == "best" and self.best_weights is not None:
            self.average.load_state_dict(self.best_weights)

    def _steps(self, reporter: Reporter) -> None:
        begun, before = time.perf_counter(), self.seconds
        while self.step < self.total:
            reporter.step(self.step + 1, self.advance())
            self.seconds = before + time.perf_counter() - begun
            if self.step == self.total or self.is_due():
                measured = self.rows[-1].get("step", 0) if self.rows else 0
                reporter.line(self.describe(self._measure(self.step - int(measured), reporter)))
                if self.has_stalled():
                    reporter.note(f"stopped at step {self.step}: no better loss in {self.stale} validations")
                    break
            self.after_step(reporter)

    def _measure(self, steps: int, reporter: Reporter) -> dict[str, float]:
        """A row of metrics: the mean loss of the last `steps` steps and the validation's measurements."""
        loss = float(self.running) / steps
        row = {"step": self.step, "seconds": self.seconds, "rate": reporter.rate(), "loss": loss}
        self.running.zero_()
        row |= self.validate()
        if "validation_loss" in row:
            self.stale += 1
            if row["validation_loss"] < self.best:
                self.best, self.stale = row["validation_loss"], 0
                self.keep_best()
        self.rows.append(row)
        self.after_validation(reporter)
        return row
