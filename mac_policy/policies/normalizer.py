"""Normalisation to zero mean and unit variance per dimension, stored with the weights."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mac_policy.common.folders import Checked

MIN_STD = 1e-2
LEAST_STD, LARGEST = 1e-6, 1e15
"""Of the standard deviation of what a robot reads or does, and the size of its values."""
SLACK = 1e-3
"""Dividing a dimension that hardly moves by its own spread would amplify the noise of a sensor to the size of a
signal."""
MARGIN = 0.1
"""Share of a dimension's demonstrated range by which observations may leave the range."""


class Normalizer(Checked, nn.Module):
    """Buffers (obs,): mean and standard deviation of observations, and their demonstrated range.

    >>> n = Normalizer(3)
    >>> n.observations(torch.zeros(5, 3)).shape
    torch.Size([5, 3])
    """

    observation_mean: Tensor
    observation_std: Tensor
    observation_low: Tensor
    observation_high: Tensor

    def __init__(self, observation_dim: int) -> None:
        super().__init__()
        for name, value in (("mean", 0.0), ("std", 1.0), ("low", -10.0), ("high", 10.0)):
            self.register_buffer(f"observation_{name}", torch.full((observation_dim,), value))

    @staticmethod
    def fit(observations: np.ndarray, min_std: float = MIN_STD) -> Normalizer:
        """Statistics of observations (S, obs)."""
        normalizer = Normalizer(observations.shape[-1])
        mean, std = statistics("observation", observations, min_std)
        low, high = observations.min(0).astype(np.float64), observations.max(0).astype(np.float64)
        slack = MARGIN * (high - low)
        for name, values in (("mean", mean), ("std", std), ("low", low - slack), ("high", high + slack)):
            getattr(normalizer, f"observation_{name}").copy_(torch.from_numpy(values))
        return normalizer

    def check(self) -> None:
        """ValueError unless the buffers are those of a normaliser."""
        check_spread("normalizer.observation_std", self.observation_std)
        check_size("normalizer.observation_mean", self.observation_mean)
        check_bounds("normalizer.observation", self.observation_low, self.observation_high)
        slack = SLACK * torch.maximum(self.observation_low.abs(), self.observation_high.abs()) + SLACK
        low, high = self.observation_low - slack, self.observation_high + slack
        if not bool(((self.observation_mean >= low) & (self.observation_mean <= high)).all()):
            raise ValueError("normalizer.observation_mean lies outside normalizer.observation_low and _high")

    def observations(self, values: Tensor) -> Tensor:
        """(..., obs) -> (..., obs) normalised, clipped to the demonstrated range and its margin.

        The demonstrations say nothing about values beyond: an object that never moved in them and is knocked over
        would otherwise dominate the network's input.
        """
        inside = values.clamp(self.observation_low, self.observation_high)
        return (inside - self.observation_mean) / self.observation_std

    def dims(self, values: Tensor, dims: list[int]) -> Tensor:
        """(..., n) values of some dims of an observation -> (..., n) normalised, not clipped."""
        return (values - self.observation_mean[dims]) / self.observation_std[dims]

    def in_unit(self, values: Tensor, dims: list[int]) -> Tensor:
        """The inverse of `dims`."""
        return values * self.observation_std[dims] + self.observation_mean[dims]


def check_spread(name: str, values: Tensor) -> None:
    """ValueError unless standard deviations are above zero, and such that single precision holds what is divided by
    them."""
    if not bool(((values >= LEAST_STD) & (values <= LARGEST)).all()):
        raise ValueError(f"{name} must be in [{LEAST_STD:g}, {LARGEST:g}], got {float(values.min())}")


def check_size(name: str, values: Tensor) -> None:
    """ValueError for means that are no means of what a robot reads or does."""
    if not bool((values.abs() <= LARGEST).all()):
        raise ValueError(f"{name} must be of a size of at most {LARGEST:g}, got {float(values.abs().max())}")


def check_bounds(name: str, low: Tensor, high: Tensor) -> None:
    """ValueError unless lower bounds are not above upper bounds."""
    if not bool((low <= high).all()):
        raise ValueError(f"{name}_low must not be above {name}_high in any dim")


def statistics(
    name: str, values: np.ndarray, min_std: float = MIN_STD
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation (n,) of values (S, n) in float64, the latter at least `min_std`."""
    if not np.isfinite(values).all():
        raise ValueError(f"the demonstrations' {name}s hold NaN or infinity")
    if values.size and float(np.abs(values).max()) > LARGEST:
        raise ValueError(f"the demonstrations' {name}s hold numbers of a size above {LARGEST:g}: rescale them")
    flat = values.reshape(-1, values.shape[-1]).astype(np.float64)
    return flat.mean(0), np.maximum(flat.std(0), min_std)
