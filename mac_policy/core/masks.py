"""Test mask distributions M: which variables a query asks for, or gives as evidence.

Any object with `num_variables` and `sample(n, generator) -> (n, N) bool` serves. One that also has
`log_prob(masks)` can be tabulated for N <= 16; one whose masks are uniform given their cardinality says so with
`cardinality_law`, and then paths through it are drawn in closed form.
"""

from __future__ import annotations

import math
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from mac_policy.common.checks import check_count, is_number
from mac_policy.core.checks import as_tensor, check_mask
from mac_policy.core.subsets import draw_index, uniform_subsets


@runtime_checkable
class MaskDistribution(Protocol):
    """A law over the subsets of N variables."""

    num_variables: int

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """n masks, (n, N) bool, True = in the set."""
        ...


@runtime_checkable
class TabulatedMasks(MaskDistribution, Protocol):
    """A mask distribution whose probabilities are known."""

    def log_prob(self, masks: Tensor) -> Tensor:
        """Log-probability in float64 of each mask (n, N) bool. (n,)"""
        ...


class ExchangeableMasks:
    """Masks that are uniform given their cardinality, whose law is `cardinality_law` (N+1,)."""

    def __init__(self, cardinality_law: Tensor) -> None:
        self.num_variables = len(cardinality_law) - 1
        self.cardinality_law = cardinality_law.double() / cardinality_law.double().sum()
        self._cumulative = self.cardinality_law.cumsum(0)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        sizes = draw_index(self._cumulative, check_count("n", n, 0), generator)
        return uniform_subsets(sizes, self.num_variables, generator)

    def log_prob(self, masks: Tensor) -> Tensor:
        t = check_mask("masks", masks, None, self.num_variables).sum(1)
        return self.cardinality_law[t].log() - _log_binomial(self.num_variables, t)


class UniformCardinality(ExchangeableMasks):
    """The papers' M: a cardinality uniform in low..high, then a uniform subset of that size.

    The default 1..N is the law of marginal queries; evidence of a conditional query has 0..N-1.

    >>> from mac_policy.core import UniformCardinality
    >>> UniformCardinality(9).sample(4).shape
    torch.Size([4, 9])
    """

    def __init__(self, num_variables: int, low: int = 1, high: int | None = None) -> None:
        check_count("num_variables", num_variables)
        low = check_count("low", low, 0)
        high = num_variables if high is None else check_count("high", high, 0)
        if not low <= high <= num_variables:
            raise ValueError(f"low and high must satisfy 0 <= low <= high <= {num_variables}, got {low}, {high}")
        self.low, self.high = low, high
        law = torch.zeros(num_variables + 1, dtype=torch.float64)
        law[low : high + 1] = 1.0
        super().__init__(law)


class Bernoulli(ExchangeableMasks):
    """Every variable is in the mask with probability `p`, independently of the others."""

    def __init__(self, num_variables: int, p: float) -> None:
        check_count("num_variables", num_variables)
        if not is_number(p) or not 0 <= p <= 1:
            raise ValueError(f"p must be a probability in [0, 1], got {p!r}")
        self.p = p
        t = torch.arange(num_variables + 1, dtype=torch.float64)
        probability = torch.tensor(p, dtype=torch.float64)
        log_law = torch.xlogy(t, probability) + torch.xlogy(num_variables - t, 1 - probability)
        super().__init__((log_law + _log_binomial(num_variables, t)).exp())

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        shape = (check_count("n", n, 0), self.num_variables)
        return torch.rand(shape, generator=generator, dtype=torch.float64) < self.p


class FixedMasks:
    """A list of masks (K, N), drawn with the given probabilities (default: all alike)."""

    def __init__(self, masks: Tensor, probabilities: Tensor | None = None) -> None:
        masks = as_tensor("masks", masks)
        if masks.ndim != 2 or 0 in masks.shape:
            raise ValueError(f"masks must have shape (K, N) with K, N >= 1, got {tuple(masks.shape)}")
        self.masks = check_mask("masks", masks, None, masks.shape[1])
        self.num_variables = masks.shape[1]
        p = torch.ones(len(masks)) if probabilities is None else as_tensor("probabilities", probabilities)
        if p.shape != (len(masks),) or not bool((p >= 0).all()) or not 0 < float(p.sum()) < math.inf:
            raise ValueError(f"probabilities must be {len(masks)} numbers >= 0 with a sum > 0, got {p.tolist()}")
        self.probabilities = p.double() / p.double().sum()
        self._cumulative = self.probabilities.cumsum(0)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        return self.masks[draw_index(self._cumulative, check_count("n", n, 0), generator)]

    def log_prob(self, masks: Tensor) -> Tensor:
        masks = check_mask("masks", masks, None, self.num_variables)
        # Equal rows get equal numbers, so that memory grows with n + K and not with n times K.
        kind = torch.cat([self.masks, masks]).unique(dim=0, return_inverse=True)[1]
        known = len(self.masks)
        return torch.bincount(kind[:known], self.probabilities, minlength=int(kind.max()) + 1)[kind[known:]].log()


def all_masks(num_variables: int) -> Tensor:
    """Every subset, (2^N, N) bool; row number b holds variable i when bit i of b is set."""
    codes = torch.arange(2**num_variables)
    return (codes[:, None] >> torch.arange(num_variables)) & 1 == 1


def mask_codes(masks: Tensor) -> Tensor:
    """The row of `all_masks` that each mask (n, N) is. (n,) long"""
    return (masks.long() << torch.arange(masks.shape[1])).sum(1)


def _log_binomial(n: int, k: Tensor) -> Tensor:
    k = k.double()
    return math.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)
