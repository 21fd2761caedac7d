"""Normalisation to zero mean and unit variance per dimension, stored with the weights."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from mac_policy.policies.spaces import Spaces

MARGIN = 0.1
"""Share of a dimension's demonstrated range by which observations may leave the range."""


class Normalizer(nn.Module):
    """Buffers (obs,), (act,): mean and std, the demonstrated range of observations, the action space's bounds.

    >>> n = Normalizer(3, 2)
    >>> n.actions(torch.zeros(5, 2)).shape
    torch.Size([5, 2])
    """

    observation_mean: Tensor
    observation_std: Tensor
    observation_low: Tensor
    observation_high: Tensor
    action_mean: Tensor
    action_std: Tensor
    action_low: Tensor
    action_high: Tensor

    def __init__(self, observation_dim: int, action_dim: int) -> None:
        super().__init__()
        for name, size, value in (
            ("observation_mean", observation_dim, 0.0),
            ("observation_std", observation_dim, 1.0),
            ("observation_low", observation_dim, -10.0),
            ("observation_high", observation_dim, 10.0),
            ("action_mean", action_dim, 0.0),
            ("action_std", action_dim, 1.0),
            ("action_low", action_dim, -1.0),
            ("action_high", action_dim, 1.0),
        ):
            self.register_buffer(name, torch.full((size,), value))

    @staticmethod
    def fit(spaces: Spaces, observations: np.ndarray, actions: np.ndarray, min_std: float = 1e-2) -> Normalizer:
        """Statistics of (S, obs) observations and (S, act) actions.

        The standard deviation is at least `min_std`: dividing a dimension that hardly moves by its own spread would
        amplify sensor noise to the size of a signal.
        """
        normalizer = Normalizer(observations.shape[-1], actions.shape[-1])
        for name, values in (("observation", observations), ("action", actions)):
            if not np.isfinite(values).all():
                raise ValueError(f"the demonstrations' {name}s hold NaN or infinity")
            flat = values.reshape(-1, values.shape[-1]).astype(np.float64)
            getattr(normalizer, f"{name}_mean").copy_(torch.from_numpy(flat.mean(0)))
            getattr(normalizer, f"{name}_std").copy_(torch.from_numpy(np.maximum(flat.std(0), min_std)))
        low, high = observations.min(0).astype(np.float64), observations.max(0).astype(np.float64)
        slack = MARGIN * (high - low)
        bounds = (("observation", low - slack, high + slack), ("action", spaces.action.low, spaces.action.high))
        for name, lowest, highest in bounds:
            getattr(normalizer, f"{name}_low").copy_(torch.from_numpy(np.asarray(lowest)))
            getattr(normalizer, f"{name}_high").copy_(torch.from_numpy(np.asarray(highest)))
        return normalizer

    def observations(self, values: Tensor) -> Tensor:
        """(..., obs) -> (..., obs) normalised, clipped to the demonstrated range and its margin.

        The demonstrations say nothing about values beyond: an object that never moved in them and is knocked over
        would otherwise dominate the network's input.
        """
        inside = values.clamp(self.observation_low, self.observation_high)
        return (inside - self.observation_mean) / self.observation_std

    def actions(self, values: Tensor) -> Tensor:
        """(..., act) in the action space -> normalised."""
        return (values - self.action_mean) / self.action_std

    def denormalize(self, values: Tensor) -> Tensor:
        """(..., act) normalised -> units of the action space, not clipped to its bounds."""
        return values * self.action_std + self.action_mean

    def bounds(self, horizon: int = 1) -> tuple[Tensor, Tensor]:
        """The action space's bounds in normalised units for every step of a chunk, (horizon * act,) each."""
        low, high = self.actions(self.action_low), self.actions(self.action_high)
        return (low, high) if horizon == 1 else (low.repeat(horizon), high.repeat(horizon))
