"""Demonstrations as the tensors that a training reads."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

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


class TrainingData(NamedTuple):
    """Flat rows and the windows into them."""

    observations: Tensor  # (S, obs)
    targets: Tensor  # (S, act), as `Variables.targets` returns them
    history: Tensor  # (S, history) rows
    horizon: Tensor  # (S, horizon) rows
    inside: Tensor  # (S, horizon)

    @staticmethod
    def of(demos: Demonstrations, policy: Policy, device: torch.device) -> TrainingData:
        windows = demos.windows(policy.settings.history, policy.settings.horizon)
        targets = policy.variables.targets(demos.observations, demos.actions)
        arrays = (demos.observations, targets, windows.history, windows.horizon, windows.inside)
        return TrainingData(*(torch.from_numpy(array).to(device) for array in arrays))

    def batch(self, rows: Tensor) -> Batch:
        """The windows of the given rows (B,)."""
        ahead = self.horizon[rows]
        return Batch(self.observations[self.history[rows]], self.targets[ahead], self.inside[rows])


def step_inputs(loop: Loop[P], data: TrainingData, step: int) -> tuple[Any, ...]:
    """What a policy's `forward` takes in a step: this process's share of its rows and random numbers, which are drawn
    for the batch of all processes."""
    draws = loop.model.draw(loop.settings.batch_size, stream(loop.seed, "draws", step))
    batch = data.batch(loop.shuffle.batch(step)[loop.share].to(loop.fabric.device))
    return (*batch, draws.rows(loop.share).to(loop.fabric.device))
