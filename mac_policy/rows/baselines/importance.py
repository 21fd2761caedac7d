"""Importance sampling of a latent vector: proposals, log densities and estimates from log weights."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from mac_policy.core.heads.continuous import gaussian_log_prob, normal


class Proposal(NamedTuple):
    """A mixture of N(mean, exp(log_std)^2) and, for a share of the samples, the prior N(0, 1).

    The importance weights of a proposal that misses the posterior are unbounded. With a share a of the samples from the
    prior, no weight exceeds p(x | z) / a.
    """

    mean: Tensor  # (B, L)
    log_std: Tensor  # (B, L)
    prior_share: float = 0.0

    def from_prior(self, count: int) -> int:
        """The number of samples, of `count`, that come from the prior; 0 for a single sample."""
        return int(self.prior_share * count)

    def draw(self, count: int, generator: torch.Generator | None) -> Tensor:
        """K = `count` samples of z, (B, K, L)."""
        noise = normal(torch.Size((len(self.mean), count, self.mean.shape[1])), self.mean, generator)
        own = count - self.from_prior(count)
        mine = self.mean[:, None] + self.log_std.exp()[:, None] * noise[:, :own]
        return torch.cat([mine, noise[:, own:]], 1)

    def log_prob(self, z: Tensor) -> Tensor:
        """The log density (B, K) of z (B, K, L) under the mixture that `draw` samples from."""
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
    """The log of the mean weight over the last axis: (B, K) to (B,).

    For log weights log p(x, z_k) / q(z_k) this is the importance-weighted bound (Burda et al. 2016). Its expectation is
    at most log p(x) and grows with K; K = 1 gives the ELBO.
    """
    return log_weights.logsumexp(-1) - math.log(log_weights.shape[-1])
