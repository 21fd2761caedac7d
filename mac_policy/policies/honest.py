"""Honest densities where demonstrations are few: a second network that stops early, calibrated by cross-fitting.

A network that acts well on a handful of demonstrations has learned them by heart, and its densities of other episodes
are far too narrow. Those of a network of the same kind that stops after a few hundred steps are not. The spreads of its
conditionals are fitted to episodes that copies of it were not trained on: for each of several folds a copy is trained
on the other episodes and answers for the fold.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from mac_policy.demonstrations.demonstrations import Demonstrations
from mac_policy.policies.data import Batch, TrainingData, step_inputs
from mac_policy.policies.mac import MAC
from mac_policy.training.fabric import Fabric
from mac_policy.training.loop import Loop
from mac_policy.training.settings import TrainSettings
from mac_policy.training.streams import stream

ROWS_PER_FOLD = 2048
"""Rows at most of a fold that the spreads are fitted to."""


class Short(Loop[MAC]):
    """A training without a folder and without validation."""

    def __init__(self, policy: MAC, demos: Demonstrations, settings: TrainSettings, seed: int, fabric: Fabric) -> None:
        super().__init__(policy, demos.steps, settings, name="densities", seed=seed, fabric=fabric, quiet=True)
        self.data = TrainingData.of(demos, policy, fabric.device)

    def inputs(self, step: int) -> tuple[Any, ...]:
        return step_inputs(self, self.data, step)

    def validate(self) -> dict[str, float]:
        return {}


def cross_fit(
    policy: MAC,
    demos: Demonstrations,
    held_out: tuple[Batch, Demonstrations] | None,
    settings: TrainSettings,
    seed: int,
    fabric: Fabric,
) -> None:
    """Train the honest network of a finished policy on all episodes, and fit its spreads to folds that are left out; to
    `held_out` where there is a single episode."""
    short = replace(settings, steps=policy.settings.honest_steps, epochs=0, validation=0.0, patience=0, weights="last")
    policy.take_honest(trained(policy, demos, short, seed, fabric).model.network)
    answers: list[tuple[MAC, Batch]] = []
    episodes: list[tuple[MAC, Demonstrations]] = []
    for fold, (rest, out) in enumerate(folds(demos, policy.settings.honest_folds, seed) if len(demos) > 1 else ()):
        part = trained(policy, rest, short, seed + fold + 1, fabric)
        rows = torch.randperm(out.steps, generator=stream(seed, f"rows of fold {fold}"))[:ROWS_PER_FOLD]
        answers.append((part, TrainingData.of(out, part, fabric.device).batch(rows.to(fabric.device))))
        episodes.append((part, out))
    if not answers and held_out is not None:
        answers, episodes = [(policy, held_out[0])], [(policy, held_out[1])]
    if answers:
        policy.calibrate_on(answers)
        policy.fit_beliefs(episodes)


def folds(demos: Demonstrations, number: int, seed: int) -> list[tuple[Demonstrations, Demonstrations]]:
    """The episodes to train on, and those left out, of each fold; there are no more folds than episodes."""
    number = min(number, len(demos))
    order = np.random.default_rng(seed).permutation(len(demos))
    found = []
    for fold in range(number):
        out = set(order[fold::number].tolist())
        rest, left = (
            Demonstrations.of(
                [episode for i, episode in enumerate(demos.episodes) if (i in out) == is_out],
                name=demos.source.name,
                kind=demos.source.kind,
            )
            for is_out in (False, True)
        )
        found.append((rest, left))
    return found


def trained(policy: MAC, demos: Demonstrations, settings: TrainSettings, seed: int, fabric: Fabric) -> MAC:
    """A policy with the statistics of `policy` and the settings of its honest network, trained anew."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        part = type(policy)(policy.spaces, policy.settings.of_honest)
    part.normalizer, part.variables = copy.deepcopy(policy.normalizer), copy.deepcopy(policy.variables)
    part.recovery = policy.recovery
    loop = Short(part, demos, settings, seed, fabric)
    with torch.inference_mode(False), torch.enable_grad():
        loop.fit()
    return loop.average.eval()
