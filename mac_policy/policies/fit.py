"""Training policies on demonstrations."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from mac_policy.common import files as atomic
from mac_policy.common.checks import check_count, check_flag, check_instance
from mac_policy.common.folders import CONFIG, WEIGHTS, TrainingFacts
from mac_policy.common.labels import categories
from mac_policy.demonstrations.demonstrations import Demonstrations
from mac_policy.policies import checkpoint
from mac_policy.policies.data import Batch, TrainingData, checked_labels, step_inputs
from mac_policy.policies.honest import cross_fit
from mac_policy.policies.mac import MAC
from mac_policy.policies.normalizer import Normalizer
from mac_policy.policies.policy import Policy
from mac_policy.policies.recovery import Recovery
from mac_policy.policies.spaces import spaces_to_json
from mac_policy.training import metrics
from mac_policy.training.fabric import Fabric, make_fabric
from mac_policy.training.run import Run
from mac_policy.training.settings import TrainSettings
from mac_policy.training.streams import stream

CALIBRATION, CURVE = "calibration.json", "curve.png"
HELD_OUT_ROWS = 2048  # measured in a validation


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
    check_instance("policy", policy, Policy)
    check_instance("demos", demos, Demonstrations)
    check_instance("settings", settings, TrainSettings)
    check_count("seed", seed, 0)
    check_flag("resume", resume)
    fabric = fabric or make_fabric(settings)
    trainer = Trainer(policy, demos, settings, Path(folder), seed=seed, fabric=fabric, quiet=quiet)
    return trainer.run(resume)


class Trainer(Run[Policy]):
    """The run of a policy: its data, and the files it leaves."""

    key = "policy"
    files = (CONFIG, WEIGHTS, CALIBRATION, CURVE)

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
        splits = settings.validation and len(demos) > 1
        train_demos, held_out = demos.split(1 - settings.validation, seed) if splits else (demos, None)
        fit_statistics(policy, train_demos)
        self.data = TrainingData.of(train_demos, policy, fabric.device)
        super().__init__(
            policy,
            self.data.rows,
            settings,
            folder,
            name=policy.kind,
            identity=identity_of(policy, settings, self.source, seed, demos),
            seed=seed,
            fabric=fabric,
            quiet=quiet,
        )
        self.demos = train_demos
        self.held_out: Batch | None = None
        if held_out is not None:
            data = TrainingData.of(held_out, policy, fabric.device)
            rows = torch.randperm(data.rows, generator=stream(seed, "held-out rows"))[:HELD_OUT_ROWS]
            self.held_out = data.batch(rows.to(fabric.device))
        self.held_out_demos = held_out

    def run(self, resume: bool = True) -> TrainResult:
        """Train to the end, or load what was finished before."""
        policy = self.average
        if not self.go(resume):
            policy = checkpoint.load_policy(self.folder, device=self.fabric.device)
        return TrainResult(policy.eval(), self.folder, self.step, self.seconds, self.validation_loss, self.resumed_from)

    def inputs(self, step: int) -> tuple[Any, ...]:
        """This process's share of a step's rows and of its random numbers, drawn for the batch of all processes."""
        return step_inputs(self, self.data, step)

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """The loss of held-out rows, with the same random numbers at every validation, and the mean coverages of a
        likelihood's intervals; those of the first process are used by all."""
        if self.held_out is None:
            return {}
        policy, training = self.average, self.average.training
        policy.eval()
        batch = self.held_out
        draws = policy.draw(len(self.held_out.targets), stream(self.seed, "held-out draws"))
        with self.fabric.autocast():
            loss = policy(*batch[:3], draws.to(self.fabric.device), *batch.said)
        found = {"validation_loss": float(loss)}
        found |= {name: float(np.nanmean(shares)) for name, shares in self._coverage(self.held_out).items()}
        policy.train(training)
        result: dict[str, float] = self.fabric.broadcast(found)
        return result

    def _coverage(self, batch: Batch) -> dict[str, NDArray[np.float64]]:
        """For the central intervals of a likelihood model: the share of values inside, for each variable."""
        covered = self.average.coverage(*batch[:3], *batch.said) if self.average.has_likelihood else {}
        return {f"coverage{percent}": shares for percent, shares in covered.items()}

    def complete(self) -> None:
        policy = self.average
        held_out = None
        if self.held_out is not None and self.held_out_demos is not None:
            held_out = self.held_out, self.held_out_demos
        if isinstance(policy, MAC) and policy.settings.honest_steps:
            cross_fit(policy, self.demos, held_out, self.settings, self.seed, self.fabric)
        elif held_out is not None:
            policy.calibrate(*held_out[0][:3], *held_out[0].said)
            if isinstance(policy, MAC):
                policy.fit_beliefs([(policy, held_out[1])])

    def write_more(self) -> None:
        shares = self._coverage(self.held_out) if self.held_out is not None else {}
        if shares:
            plain = {name: [None if math.isnan(x) else round(float(x), 4) for x in row] for name, row in shares.items()}
            atomic.write_text(self.folder / CALIBRATION, json.dumps(plain, indent=2) + "\n")
        metrics.write_curve(self.folder / CURVE, self.rows, f"{self.model.kind}, seed {self.seed}")

    def write_model(self, facts: Mapping[str, Any]) -> None:
        said = {
            k: v for k, v in self.identity.items() if k not in ("policy", "settings", "actions", "labels", "sha256")
        }
        checkpoint.save_policy(self.average, self.folder, self.source, {**said, **facts})

    def read_facts(self) -> tuple[TrainingFacts, Mapping[str, Any]] | None:
        if not (self.folder / CONFIG).exists():
            return None
        config = checkpoint.read_config(self.folder)
        facts = config["training"]
        found = TrainingFacts.of(facts, str(self.folder / CONFIG))
        identity = {"sha256": config["dataset"].get("sha256"), "seed": facts.get("seed")}
        identity |= {"policy": config["policy"], "settings": config["settings"], "training": facts.get("training")}
        spaces = spaces_to_json(checkpoint.read_spaces(self.folder / CONFIG, config))
        identity["actions"] = spaces["actions"]
        if "labels_sha256" in facts:
            identity |= {"labels": spaces.get("labels"), "labels_sha256": facts["labels_sha256"]}
        return found, identity


def fit_statistics(policy: Policy, demos: Demonstrations) -> None:
    """The statistics by which a policy normalises, and its recovery, from demonstrations."""
    policy.normalizer = Normalizer.fit(demos.observations)
    variables, horizon = policy.variables, policy.settings.horizon
    targets, ahead = variables.targets(demos.observations, demos.actions), np.empty(0)
    if variables.has_frame and horizon > 1:
        windows = demos.windows(1, horizon)
        ahead = variables.actions(demos.observations[:, None], targets[windows.horizon[:, 1:]]).astype(np.float64)
        ahead[~windows.inside[:, 1:]] = np.nan
    variables.check_precision(demos.observations, demos.actions, targets)
    variables.fit(demos.actions, targets, ahead)
    if policy.settings.displacement:
        policy.recovery = Recovery.fit(demos.observations, demos.actions, demos.episode_index)


def identity_of(
    policy: Policy, settings: TrainSettings, source: Mapping[str, Any], seed: int, demos: Demonstrations
) -> dict[str, Any]:
    """Everything that the weights of a run depend on, as plain JSON: policy, settings, data, their labels and seed."""
    labels = {}
    if policy.labels:
        codes = checked_labels(demos, categories(policy.labels))  # hindsight depends on the data alone
        labels["labels"] = spaces_to_json(policy.spaces)["labels"]
        labels["labels_sha256"] = hashlib.sha256(np.ascontiguousarray(codes).data).hexdigest()
    found: dict[str, Any] = json.loads(
        json.dumps(
            {
                "policy": policy.kind,
                "settings": dataclasses.asdict(policy.settings),
                "actions": spaces_to_json(policy.spaces)["actions"],
                **labels,
                "training": settings.identity(),
                "sha256": source.get("sha256"),
                "seed": seed,
            }
        )
    )
    return found
