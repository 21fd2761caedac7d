"""Training policies on demonstrations."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mac_policy.demonstrations.demonstrations import Demonstrations
from mac_policy.policies import checkpoint
from mac_policy.policies.normalizer import Normalizer
from mac_policy.policies.policy import Draws, Policy
from mac_policy.policies.recovery import Recovery
from mac_policy.policies.training_data import Batch, TrainingData
from mac_policy.policies.validation import validate, write_calibration
from mac_policy.training import metrics
from mac_policy.training.fabric import Fabric, make_fabric
from mac_policy.training.run import Run
from mac_policy.training.settings import TrainSettings
from mac_policy.training.streams import stream

CALIBRATION, CURVE = "calibration.json", "curve.png"


class TrainResult(NamedTuple):
    """The result of `train`: the trained policy, its folder and facts of the run.

    >>> train(policy, demos, TrainSettings(steps=1000), "runs/bc-s0").validation_loss   # trains   # doctest: +SKIP
    """

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

    A run that was killed resumes from its last saved state and ends with the same weights; a finished run is loaded.
    `resume=False` starts afresh.

    >>> train(make_policy("bc", spaces), demos, TrainSettings(steps=1000), "runs/bc-s0")   # trains   # doctest: +SKIP
    """
    fabric = fabric or make_fabric(settings)
    trainer = Trainer(policy, demos, settings, Path(folder), seed=seed, fabric=fabric, quiet=quiet)
    return trainer.run(resume)


class Trainer(Run[Policy]):
    """The run of a policy: its data, and the files it leaves."""

    key = "policy"
    files = (checkpoint.CONFIG, checkpoint.WEIGHTS, CALIBRATION, CURVE)

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
        self.source = demos.source.as_dict()
        train_demos, held_out = split(demos, settings.validation, seed)
        policy.normalizer = Normalizer.fit(policy.spaces, train_demos.observations, train_demos.actions)
        if policy.settings.displacement:
            policy.recovery = Recovery.fit(train_demos.observations, train_demos.actions, train_demos.episode_index)
        window = (policy.settings.history, policy.settings.horizon)
        data = TrainingData.of(train_demos, *window)
        super().__init__(
            policy,
            len(data),
            settings,
            folder,
            name=policy.kind,
            identity=identity_of(policy, settings, self.source, seed),
            seed=seed,
            fabric=fabric,
            quiet=quiet,
        )
        self.policy = policy
        self.data = data.to(fabric.device)
        self.held_out = None if held_out is None else TrainingData.of(held_out, *window).to(fabric.device)

    def run(self, resume: bool = True) -> TrainResult:
        """Train to the end, or load what was finished before."""
        policy = self.average
        if not self.go(resume):
            policy = checkpoint.load_policy(self.folder, device=self.fabric.device)
        return TrainResult(policy.eval(), self.folder, self.step, self.seconds, self.validation_loss, self.resumed_from)

    def batch(self, step: int) -> tuple[Batch, Draws]:
        """This process's share of a step's rows and of its random numbers, drawn for the batch of all processes."""
        draws = self.policy.draw(self.settings.batch_size, stream(self.seed, "draws", step))
        mine = draws.rows(self.share).to(self.fabric.device)
        return self.data.batch(self.shuffle.batch(step)[self.share].to(self.fabric.device)), mine

    def inputs(self, step: int) -> tuple[Any, ...]:
        batch, draws = self.batch(step)
        return (*batch, draws)

    def validate(self) -> dict[str, float]:
        if self.held_out is None:
            return {}
        return validate(self.average, self.held_out, self.seed, self.fabric)

    def write_more(self) -> None:
        write_calibration(self.folder / CALIBRATION, self.average, self.held_out, self.seed)
        metrics.write_curve(self.folder / CURVE, self.rows, f"{self.policy.kind}, seed {self.seed}")

    def write_model(self, facts: Mapping[str, Any]) -> None:
        said = {k: v for k, v in self.identity.items() if k not in ("policy", "settings", "sha256")}
        checkpoint.save_policy(self.average, self.folder, self.source, {**said, **facts})

    def read_facts(self) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
        if not (self.folder / checkpoint.CONFIG).exists():
            return None
        config = checkpoint.read_config(self.folder)
        return config["training"], identity_in(config)


def split(demos: Demonstrations, validation: float, seed: int) -> tuple[Demonstrations, Demonstrations | None]:
    """Episodes to train on, and the episodes held out, if any."""
    if validation == 0.0 or len(demos) < 2:
        return demos, None
    return demos.split(1 - validation, seed)


def identity_of(policy: Policy, settings: TrainSettings, source: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Everything that the weights of a run depend on, as plain JSON: policy, settings, data and seed."""
    found: dict[str, Any] = json.loads(
        json.dumps(
            {
                "policy": policy.kind,
                "settings": dataclasses.asdict(policy.settings),
                "training": settings.identity(),
                "sha256": source.get("sha256"),
                "seed": seed,
            }
        )
    )
    return found


def identity_in(config: Mapping[str, Any]) -> dict[str, Any]:
    """The identity of the run that wrote a policy's config.json."""
    facts = config["training"]
    return {
        "policy": config["policy"],
        "settings": config["settings"],
        "training": facts.get("training"),
        "sha256": config["dataset"].get("sha256"),
        "seed": facts.get("seed"),
    }
