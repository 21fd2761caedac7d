"""Demonstrations as the tensors that a training reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mac_policy.common.labels import UNSAID, AnyLabel, Codes, Label, categories, is_said, numbers
from mac_policy.demonstrations.demonstrations import Demonstrations
from mac_policy.policies.policy import Policy
from mac_policy.training.loop import Loop
from mac_policy.training.streams import stream

P = TypeVar("P", bound=Policy)


class Batch(NamedTuple):
    """What a policy's `forward` takes, before its draws."""

    observations: Tensor  # (B, history, obs)
    targets: Tensor  # (B, horizon, act), as `Variables.targets` returns them
    inside: Tensor  # (B, horizon) False beyond an episode's end
    labels: Tensor | None = None  # (B, L) codes (see `common.labels`), of a policy with labels

    @property
    def said(self) -> tuple[Tensor, ...]:
        """The labels as a last argument, where there are some: a policy of a user's own may take none."""
        return () if self.labels is None else (self.labels,)


class TrainingData(NamedTuple):
    """Flat steps and the windows into them: one for each step, but none for a step with an unknown label where a policy
    reads labels as inputs."""

    observations: Tensor  # (S, obs)
    targets: Tensor  # (S, act), as `Variables.targets` returns them
    history: Tensor  # (R, history) steps
    horizon: Tensor  # (R, horizon) steps
    inside: Tensor  # (R, horizon)
    labels: Tensor | None = None  # (R, L)

    @staticmethod
    def of(demos: Demonstrations, policy: Policy, device: torch.device) -> TrainingData:
        windows = demos.windows(policy.settings.history, policy.settings.horizon)
        targets = policy.variables.targets(demos.observations, demos.actions)
        arrays = (demos.observations, targets, windows.history, windows.horizon, windows.inside)
        data = TrainingData(*(torch.from_numpy(array).to(device) for array in arrays))
        if not policy.labels:
            return data
        labels = codes_of(demos, policy.labels)
        data = data._replace(labels=torch.from_numpy(labels).to(device))
        known = is_said(policy.labels, labels).all(1)
        if policy.labels_as != "inputs" or known.all():
            return data
        if not known.any():
            raise ValueError(
                f"a {policy.kind} policy reads labels as inputs, and no step of {demos.source.name} has all of "
                f"{[label.name for label in policy.labels]}: set Episode.labels, or labels=false"
            )
        some = torch.from_numpy(np.flatnonzero(known)).to(device)
        return data._replace(
            history=data.history[some],
            horizon=data.horizon[some],
            inside=data.inside[some],
            labels=torch.from_numpy(labels[known]).to(device),
        )

    @property
    def rows(self) -> int:
        """The number of windows."""
        return len(self.history)

    def batch(self, rows: Tensor) -> Batch:
        """The given windows (B,)."""
        ahead = self.horizon[rows]
        labels = None if self.labels is None else self.labels[rows]
        return Batch(self.observations[self.history[rows]], self.targets[ahead], self.inside[rows], labels)


def step_inputs(loop: Loop[P], data: TrainingData, step: int) -> tuple[Any, ...]:
    """What a policy's `forward` takes in a step: this process's share of its rows and random numbers, which are drawn
    for the batch of all processes."""
    draws = loop.model.draw(loop.settings.batch_size, stream(loop.seed, "draws", step))
    batch = data.batch(loop.shuffle.batch(step)[loop.share].to(loop.fabric.device))
    return (*batch[:3], draws.rows(loop.share).to(loop.fabric.device), *batch.said)


def codes_of(demos: Demonstrations, labels: Sequence[AnyLabel]) -> Codes:
    """(S, L): the codes of every step, of real values by hindsight."""
    codes = checked_labels(demos, categories(labels))
    ahead = [demos.ahead(label.observed, label.steps) for label in numbers(labels)]
    return np.column_stack([codes, *ahead]).astype(np.float32) if ahead else codes


def checked_labels(demos: Demonstrations, labels: Sequence[Label]) -> NDArray[np.int64]:
    """(S, L): the codes; ValueError unless every step has a class of each label, or says that it is not known."""
    found, names = demos.labels, [label.name for label in labels]
    if not labels:
        return np.zeros((demos.steps, 0), np.int64)
    if found is None or found.shape[1] != len(labels):
        have = "none" if found is None else str(found.shape[1])
        raise ValueError(
            f"the policy has the labels {names}, the episodes of {demos.source.name} have {have}: set Episode.labels, "
            "or labels=False"
        )
    for column, label in enumerate(labels):
        low, high = int(found[:, column].min()), int(found[:, column].max())
        if low < UNSAID or high >= len(label.classes):
            raise ValueError(
                f"label {label.name!r} of {demos.source.name} has codes {low}..{high}; allowed are "
                f"0..{len(label.classes) - 1}, and {UNSAID} where it is not known"
            )
    return found.astype(np.int64, copy=False)
