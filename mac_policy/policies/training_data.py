"""Demonstrations as tensors in memory: batches are index reads, without worker processes."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mac_policy.demonstrations.demonstrations import Demonstrations


class Batch(NamedTuple):
    """What a policy's `forward` takes, before its draws."""

    observations: Tensor  # (B, history, obs)
    actions: Tensor  # (B, horizon, act)
    inside: Tensor  # (B, horizon) False beyond an episode's end


class TrainingData(NamedTuple):
    """Flat rows and the windows into them."""

    observations: Tensor  # (S, obs)
    actions: Tensor  # (S, act)
    history: Tensor  # (S, history) rows
    horizon: Tensor  # (S, horizon) rows
    inside: Tensor  # (S, horizon)

    @staticmethod
    def of(demos: Demonstrations, history: int = 1, horizon: int = 1) -> TrainingData:
        windows = demos.windows(history, horizon)
        arrays = (demos.observations, demos.actions, windows.history, windows.horizon, windows.inside)
        return TrainingData(*(torch.from_numpy(array) for array in arrays))

    def __len__(self) -> int:  # of the rows, not of the tuple
        return self.observations.shape[0]

    def to(self, device: torch.device) -> TrainingData:
        return TrainingData(*(tensor.to(device) for tensor in self))

    def batch(self, rows: Tensor) -> Batch:
        """The windows of the given rows (B,)."""
        ahead = self.horizon[rows]
        return Batch(self.observations[self.history[rows]], self.actions[ahead], self.inside[rows])
