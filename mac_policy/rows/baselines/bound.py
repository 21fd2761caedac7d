"""The terms of the variational bound of a diffusion model."""

from __future__ import annotations

import torch
from torch import Tensor

from mac_policy.common.checks import check_count


def log_prior_ratio(clean: Tensor, signal: Tensor) -> Tensor:
    """- KL(q(x_T | x_0) || N(0, I)) of rows (B, N) of which the share `signal` is left at time T. (B,)"""
    return -0.5 * (signal * clean.square() - signal - torch.log1p(-signal)).sum(1)


def log_posterior_ratio(exact: Tensor, exact_variance: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """- KL(N(exact, exact_variance) || N(mean, variance)) of means (B, N) and variances (B,). (B,)"""
    ratio = exact_variance / variance
    distance = (exact - mean).square().sum(1) / variance
    return -0.5 * (distance + exact.shape[1] * (ratio - 1 - ratio.log()))


def chosen_times(
    rows: int, num_steps: int, steps: int | None, generator: torch.Generator | None
) -> list[tuple[Tensor, float]]:
    """(t (B,), weight) of the times that a bound is summed over: time 1, then all others or one of each stratum."""
    first = torch.ones(rows, dtype=torch.long)
    rest = num_steps - 1
    if steps is None or steps >= num_steps:
        return [(first * t, 1.0) for t in range(1, num_steps + 1)]
    strata = max(check_count("steps", steps) - 1, 1)
    u = torch.rand((strata, rows), generator=generator, dtype=torch.float64)
    drawn = ((torch.arange(strata)[:, None] + u) * (rest / strata)).long().clamp(max=rest - 1) + 2
    return [(first, 1.0), *((t, rest / strata) for t in drawn)]


def log_normal_mass(lower: Tensor, upper: Tensor) -> Tensor:
    """log(Phi(upper) - Phi(lower)), lower < upper, without cancellation in either tail."""
    flip = lower + upper > 0
    low, high = torch.where(flip, -upper, lower), torch.where(flip, -lower, upper)
    log_high, log_low = torch.special.log_ndtr(high), torch.special.log_ndtr(low)
    mass: Tensor = log_high + torch.log(-torch.expm1(log_low - log_high))
    return mass
