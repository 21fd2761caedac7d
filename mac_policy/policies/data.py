"""Demonstrations as the tensors that a training reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mac_policy.common.labels import UNSAID, Label
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
    labels: Tensor | None = None  # (B, L) codes, of a policy with labels

    @property
    def said(self) -> tuple[Tensor, ...]:
        """The labels as a last argument, where there are some: a policy of a user's own may take none."""
        return () if self.labels is None else (self.labels,)


class TrainingData(NamedTuple):
    """Flat rows and the windows into them."""

    observations: Tensor  # (S, obs)
    targets: Tensor  # (S, act), as `Variables.targets` returns them
    history: Tensor  # (S, history) rows
    horizon: Tensor  # (S, horizon) rows
    inside: Tensor  # (S, horizon)
    labels: Tensor | None = None  # (S, L)

    @staticmethod
    def of(demos: Demonstrations, policy: Policy, device: torch.device) -> TrainingData:
        windows = demos.windows(policy.settings.history, policy.settings.horizon)
        targets = policy.variables.targets(demos.observations, demos.actions)
        arrays = (demos.observations, targets, windows.history, windows.horizon, windows.inside)
        data = TrainingData(*(torch.from_numpy(array).to(device) for array in arrays))
        if not policy.labels:
            return data
        if policy.labels_as == "inputs" and (unknown := int((checked_labels(demos, policy.labels) < 0).any(1).sum())):
            raise ValueError(
                f"a {policy.kind} policy reads labels as inputs, but {unknown} of {demos.steps} steps of "
                f"{demos.source.name} have none: leave these episodes out, or labels=false"
            )
        return data._replace(labels=torch.from_numpy(checked_labels(demos, policy.labels)).to(device))

    def batch(self, rows: Tensor) -> Batch:
        """The windows of the given rows (B,)."""
        ahead = self.horizon[rows]
        labels = None if self.labels is None else self.labels[rows]
        return Batch(self.observations[self.history[rows]], self.targets[ahead], self.inside[rows], labels)


def step_inputs(loop: Loop[P], data: TrainingData, step: int) -> tuple[Any, ...]:
    """What a policy's `forward` takes in a step: this process's share of its rows and random numbers, which are drawn
    for the batch of all processes."""
    draws = loop.model.draw(loop.settings.batch_size, stream(loop.seed, "draws", step))
    batch = data.batch(loop.shuffle.batch(step)[loop.share].to(loop.fabric.device))
    return (*batch[:3], draws.rows(loop.share).to(loop.fabric.device), *batch.said)


def checked_labels(demos: Demonstrations, labels: Sequence[Label]) -> NDArray[np.int64]:
    """(S, L): the codes; ValueError unless every step has a class of each label, or says that it is not known."""
    found, names = demos.labels, [label.name for label in labels]
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
