"""Importance sampling of a latent vector: what is drawn, how it is weighed, what the weights estimate."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from mac_policy.core.heads.continuous import gaussian_log_prob, normal


class Proposal(NamedTuple):
    """q(z) = N(mean, exp(log_std)^2), and for a share of the samples the prior N(0, 1).

    A proposal that misses where the posterior is costs weights without bound; with a share a of the samples from the
    prior no weight is above p(x | z) / a.
    """

    mean: Tensor  # (B, L)
    log_std: Tensor  # (B, L)
    prior_share: float = 0.0

    def from_prior(self, count: int) -> int:
        """How many of `count` samples are the prior's: none of a single one."""
        return int(self.prior_share * count)

    def draw(self, count: int, generator: torch.Generator | None) -> Tensor:
        """(B, K, L)"""
        noise = normal(torch.Size((len(self.mean), count, self.mean.shape[1])), self.mean, generator)
        own = count - self.from_prior(count)
        mine = self.mean[:, None] + self.log_std.exp()[:, None] * noise[:, :own]
        return torch.cat([mine, noise[:, own:]], 1)

    def log_prob(self, z: Tensor) -> Tensor:
        """(B, K) of z (B, K, L) under the mixture that `draw` takes its K samples from."""
        own = gaussian_log_prob(z, self.mean[:, None], self.log_std[:, None]).sum(-1)
        share = self.from_prior(z.shape[1]) / z.shape[1]
        if share == 0:
            return own
        return torch.logaddexp(math.log(1 - share) + own, math.log(share) + log_prior(z))


def log_prior(z: Tensor) -> Tensor:
    """log N(z; 0, I) over the last axis."""
    zero = torch.zeros_like(z)
    return gaussian_log_prob(z, zero, zero).sum(-1)


def log_mean_exp(log_weights: Tensor) -> Tensor:
    """log of the mean weight over the last axis: (B, K) to (B,).

    Of log p(x, z_k) / q(z_k) it is the importance-weighted bound (Burda et al. 2016): at most log p(x) in the mean, the
    ELBO for K = 1, closer with every sample.
    """
    return log_weights.logsumexp(-1) - math.log(log_weights.shape[-1])


def log_weighted_mean(log_weights: Tensor, log_values: Tensor) -> Tensor:
    """log of sum_k w_k exp(v_k) / sum_k w_k over the last axis: (B, K) each to (B,)."""
    return (log_weights + log_values).logsumexp(-1) - log_weights.logsumexp(-1)
