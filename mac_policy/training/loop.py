"""The training loop, on Lightning Fabric."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from mac_policy.data.demonstrations import Demonstrations
from mac_policy.policies import atomic, checkpoint
from mac_policy.policies.base import Policy
from mac_policy.policies.normalizer import Normalizer
from mac_policy.policies.recovery import Recovery
from mac_policy.training import average, identity, metrics, state
from mac_policy.training.data import Batch, TrainingData
from mac_policy.training.divergence import DIVERGED, TrainingDiverged, report_divergence
from mac_policy.training.evaluation import validate, write_calibration
from mac_policy.training.progress import Reporter
from mac_policy.training.settings import TrainSettings, rate
from mac_policy.training.setup import make_fabric, make_optimizer, split
from mac_policy.training.streams import Shuffle, stream

CALIBRATION, CURVE, METRICS = "calibration.json", "curve.png", "metrics.csv"
FILES = (
    checkpoint.CONFIG, state.STATE, checkpoint.WEIGHTS, checkpoint.BEST, METRICS, CALIBRATION, CURVE, DIVERGED,
)  # fmt: skip


class TrainResult(NamedTuple):
    """What a run leaves behind."""

    policy: Policy
    folder: Path
    steps: int
    seconds: float
    validation_loss: float
    resumed_from: int


def train(
    policy: Policy,
    demos: Demonstrations,
    settings: TrainSettings,
    folder: str | Path,
    *,
    seed: int = 0,
    resume: bool = True,
    quiet: bool = False,
    fabric: Fabric | None = None,
) -> TrainResult:
    """Train `policy` (in place) on demonstrations and keep it in `folder`.

    A run that was killed goes on from its last saved state, and ends with the weights it would have had; a finished
    one is loaded. `resume=False` starts afresh.

    >>> train(make_policy("bc", spaces), demos, TrainSettings(steps=1000), "runs/bc-s0")   # doctest: +SKIP
    """
    fabric = fabric or make_fabric(settings)
    trainer = Trainer(policy, demos, settings, Path(folder), seed=seed, fabric=fabric, quiet=quiet)
    return trainer.run(resume)


class Trainer:
    """One run: its data, its optimiser and where it stands."""

    def __init__(
        self,
        policy: Policy,
        demos: Demonstrations,
        settings: TrainSettings,
        folder: Path,
        *,
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
        self.policy, self.settings, self.folder, self.seed, self.fabric = policy, settings, folder, seed, fabric
        self.source = demos.source.as_dict()
        self.identity = identity.of_run(policy, settings, self.source, seed)
        train_demos, held_out = split(demos, settings.validation, seed)
        policy.normalizer = Normalizer.fit(policy.spaces, train_demos.observations, train_demos.actions)
        if policy.settings.displacement:
            policy.recovery = Recovery.fit(train_demos.observations, train_demos.actions, train_demos.episode_index)
        window = (policy.settings.history, policy.settings.horizon)
        self.data = TrainingData.of(train_demos, *window).to(fabric.device)
        self.held_out = None if held_out is None else TrainingData.of(held_out, *window).to(fabric.device)
        self.total = settings.total_steps(len(self.data))
        self.shuffle = Shuffle(len(self.data), settings.batch_size, seed)
        self.optimizer = make_optimizer(policy, settings)
        self.module, self.wrapped = fabric.setup(policy, self.optimizer)
        self.average = average.averaged_copy(policy) if settings.ema else policy
        self.step, self.seconds, self.best, self.stale, self.resumed_from = 0, 0.0, math.inf, 0, 0
        self.rows: list[dict[str, float]] = []
        self.running = torch.zeros((), dtype=torch.float64, device=fabric.device)
        self.quiet = quiet or not fabric.is_global_zero

    # ---- one step ----

    def batch(self, step: int) -> tuple[Batch, dict[str, Tensor]]:
        """This process's share of a step's rows and of its random numbers, drawn for the batch of all processes."""
        n, world, rank = self.settings.batch_size, self.fabric.world_size, self.fabric.global_rank
        share = slice(rank * n // world, (rank + 1) * n // world)
        draws = self.policy.draw(n, stream(self.seed, "draws", step))
        mine = {name: values[share].to(self.fabric.device) for name, values in draws.items()}
        return self.data.batch(self.shuffle.batch(step)[share].to(self.fabric.device)), mine

    def backward(self, step: int) -> Tensor:
        """The loss of a step, with its gradient (averaged over the processes) in the weights."""
        batch, draws = self.batch(step)
        self.wrapped.zero_grad(set_to_none=True)
        loss: Tensor = self.module(*batch, draws)
        # The mean over all processes: each of them stops at the same step, none waits for one that has stopped.
        mean: Tensor = self.fabric.all_reduce(loss.detach().clone())  # type: ignore[assignment]
        if not torch.isfinite(mean):
            raise self.diverged("loss", step)
        self.fabric.backward(loss)
        return mean

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
            average.update(self.average, self.policy, s.ema, self.step)
        self.running += loss
        self.step += 1
        return float(loss)

    def diverged(self, what: str, step: int) -> TrainingDiverged:
        rows = self.shuffle.batch(step).tolist()
        return report_divergence(what, step, rows, self.folder, write=self.fabric.is_global_zero)

    # ---- a whole run ----

    def run(self, resume: bool = True) -> TrainResult:
        self.folder.mkdir(parents=True, exist_ok=True)
        if resume and self._finished():
            return self._result(checkpoint.load_policy(self.folder, device=self.fabric.device))
        if self.fabric.is_global_zero:
            atomic.remove_litter(self.folder)
            for name in () if resume else FILES:
                (self.folder / name).unlink(missing_ok=True)
        if resume:
            self._resume()
        with Reporter(self.policy.kind, self.total, self.step, self.quiet) as reporter:
            if self.resumed_from:
                reporter.note(f"resumed {self.folder} at step {self.step}")
            self._loop(reporter)
        self._finish()
        return self._result(self.average)

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
        if self.held_out is not None:
            row |= validate(self.average, self.held_out, self.seed, self.fabric)
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
                atomic.write_tensors(self.folder / checkpoint.BEST, self.average.state_dict())

    def _finish(self) -> None:
        self.fabric.barrier()  # the first process may still be writing the best weights
        if self.settings.weights == "best" and (self.folder / checkpoint.BEST).exists():
            self.average.load_state_dict(atomic.read_tensors(self.folder / checkpoint.BEST))
        if self.fabric.is_global_zero:
            write_calibration(self.folder / CALIBRATION, self.average, self.held_out, self.seed)
            metrics.write_curve(self.folder / CURVE, self.rows, f"{self.policy.kind}, seed {self.seed}")
            self._save_policy(finished=True)  # what says that all is done comes last
            (self.folder / state.STATE).unlink(missing_ok=True)
        self.fabric.barrier()

    # ---- files ----

    def save(self) -> None:
        """The state to resume from, then the policy as it is. Each file is replaced as a whole."""
        facts = {
            "step": self.step,
            "seconds": self.seconds,
            "best": self.best,
            "stale": self.stale,
            "running": float(self.running),
            "rows": self.rows,
            "fingerprint": self.identity,
        }
        modules: dict[str, nn.Module] = {"policy": self.policy}
        if self.settings.ema:
            modules["average"] = self.average
        state.save_state(self.folder, modules, self.optimizer, facts)
        self._save_policy(finished=False)

    def _try(self, write: Callable[[], None], reporter: Reporter) -> None:
        """Write on the first process; a disk that is full costs this one write, not the run."""
        if not self.fabric.is_global_zero:
            return
        try:
            write()
        except OSError as error:
            reporter.note(f"could not write at step {self.step} ({error}); what was saved before stays, going on")

    def _save_policy(self, finished: bool) -> None:
        loss = self.rows[-1].get("validation_loss") if self.rows else None
        facts = {
            **self.identity,
            "steps": self.step,
            "seconds": round(self.seconds, 2),
            "finished": finished,
            "validation_loss": loss if loss is not None and math.isfinite(loss) else None,
        }
        facts = {k: v for k, v in facts.items() if k not in ("policy", "settings", "sha256")}
        checkpoint.save_policy(self.average, self.folder, self.source, facts)

    def _finished(self) -> bool:
        if not (self.folder / checkpoint.CONFIG).exists():
            return False
        config = checkpoint.read_config(self.folder)
        facts = config["training"]
        if not facts.get("finished"):
            return False
        identity.check_same_run(self.folder, self.identity, identity.of_config(config))
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
        modules: dict[str, nn.Module] = {"policy": self.policy}
        if self.settings.ema:
            modules["average"] = self.average
        state.load_state(self.folder, modules, self.optimizer)
        self.step = self.resumed_from = facts["step"]
        self.seconds, self.best, self.stale = facts["seconds"], facts["best"], facts["stale"]
        self.rows = facts["rows"]
        self.running.fill_(facts["running"])

    def _result(self, policy: Policy) -> TrainResult:
        loss = self.rows[-1].get("validation_loss", math.nan) if self.rows else math.nan
        return TrainResult(policy.eval(), self.folder, self.step, self.seconds, loss, self.resumed_from)
