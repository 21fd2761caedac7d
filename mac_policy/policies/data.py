"""Demonstrations as the tensors that a training reads."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mac_policy.demonstrations.demonstrations import Demonstrations
from mac_policy.policies.policy import Policy


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
