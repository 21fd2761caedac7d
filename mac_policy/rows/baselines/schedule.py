"""Noise schedules of diffusion models, the times that RePaint visits, and the terms of the variational bound.

x_t = sqrt(s_t) x_0 + sqrt(1 - s_t) noise, where s_t (alpha-bar in Ho et al. 2020) falls from s_0 = 1 to about 0.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from mac_policy.common.checks import check_choice, check_count

LARGEST_BETA = 0.999


class Schedule(NamedTuple):
    """Signal levels at times 0..T, and the matching times of the full schedule, which the network reads."""

    signal: Tensor  # (T+1,) float64: s_t
    full_times: Tensor  # (T+1,) long

    @property
    def num_steps(self) -> int:
        return len(self.signal) - 1

    def beta(self, t: Tensor) -> Tensor:
        """The variance that step t adds to x_{t-1}."""
        return 1 - self.signal[t] / self.signal[t - 1]

    def posterior_variance(self, t: Tensor) -> Tensor:
        """The variance of q(x_{t-1} | x_t, x_0)."""
        return self.beta(t) * (1 - self.signal[t - 1]) / (1 - self.signal[t])

    def posterior_mean(self, x0: Tensor, xt: Tensor, t: Tensor) -> Tensor:
        """The mean of q(x_{t-1} | x_t, x_0); t (B,), x (B, N)."""
        before, now, beta = self.signal[t - 1], self.signal[t], self.beta(t)
        of_x0 = before.sqrt() * beta / (1 - now)
        of_xt = (1 - beta).sqrt() * (1 - before) / (1 - now)
        return of_x0.to(x0.dtype)[:, None] * x0 + of_xt.to(x0.dtype)[:, None] * xt

    def noised(self, x: Tensor, noise: Tensor, start: int, end: Tensor) -> Tensor:
        """x_end (B, N) from x_start and standard normal noise, start <= end (B,)."""
        kept = (self.signal[end] / self.signal[start])[:, None]
        return kept.sqrt().to(x.dtype) * x + (1 - kept).sqrt().to(x.dtype) * noise

    def respaced(self, steps: int) -> Schedule:
        """A schedule of `steps` evenly spaced times that includes the last one; at most `num_steps`."""
        steps = min(steps, self.num_steps)
        kept = (
            torch.linspace(0, self.num_steps, steps + 1, dtype=torch.float64, device=self.full_times.device)
            .round()
            .long()
        )
        return Schedule(self.signal[kept], self.full_times[kept])


def make_schedule(num_steps: int, kind: str = "linear") -> Schedule:
    """A noise schedule.

    'linear': beta from 0.0001 to 0.02 in 1000 steps (Ho et al. 2020), rescaled to the same total noise for another
    number of steps; 'cosine': Nichol and Dhariwal (2021).

    >>> from mac_policy.rows.baselines.schedule import make_schedule
    >>> [round(float(s), 3) for s in make_schedule(1000).signal[[0, 250, 500, 1000]]]
    [1.0, 0.524, 0.079, 0.0]
    """
    check_count("num_steps", num_steps, most=100_000)
    check_choice("schedule", kind, ("linear", "cosine"))
    if kind == "linear":
        beta = torch.linspace(1e-4, 0.02, num_steps, dtype=torch.float64) * (1000 / num_steps)
    else:
        angle = (torch.arange(num_steps + 1, dtype=torch.float64) / num_steps + 0.008) / 1.008 * (math.pi / 2)
        signal = angle.cos().square()
        beta = 1 - signal[1:] / signal[:-1]
    signal = torch.cat([torch.ones(1, dtype=torch.float64), (1 - beta.clamp(max=LARGEST_BETA)).cumprod(0)])
    return Schedule(signal, torch.arange(num_steps + 1))


def repaint_times(num_steps: int, jump_length: int, resamplings: int) -> list[int]:
    """The times that RePaint visits (Lugmayr et al. 2022).

    At every `jump_length`-th time RePaint adds noise of `jump_length` steps and denoises again, so that each of these
    stretches is denoised `resamplings` times.

    >>> from mac_policy.rows.baselines.schedule import repaint_times
    >>> repaint_times(5, 2, 2)
    [5, 4, 3, 2, 4, 3, 2, 1, 0, 2, 1, 0]
    """
    left = dict.fromkeys(range(0, num_steps - jump_length, jump_length), resamplings - 1)
    times = [num_steps]
    while times[-1] > 0:
        times.append(times[-1] - 1)
        if left.get(times[-1], 0) > 0:
            left[times[-1]] -= 1
            times.append(times[-1] + jump_length)
    return times


def log_prior_ratio(clean: Tensor, signal: Tensor) -> Tensor:
    """- KL(q(x_T | x_0) || N(0, I)) of rows x_0 (B, N) with the signal level s_T. (B,)"""
    return -0.5 * (signal * clean.square() - signal - torch.log1p(-signal)).sum(1)


def log_posterior_ratio(exact: Tensor, exact_variance: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """- KL(N(exact, exact_variance) || N(mean, variance)) of means (B, N) and variances (B,). (B,)"""
    ratio = exact_variance / variance
    distance = (exact - mean).square().sum(1) / variance
    return -0.5 * (distance + exact.shape[1] * (ratio - 1 - ratio.log()))


def chosen_times(
    rows: int, num_steps: int, steps: int | None, generator: torch.Generator | None
) -> list[tuple[Tensor, float]]:
    """The times t (B,) and weights of the terms of a bound: time 1, then all other times or one from each stratum."""
    first = torch.ones(rows, dtype=torch.long)
    rest = num_steps - 1
    if steps is None or steps >= num_steps:
        return [(first * t, 1.0) for t in range(1, num_steps + 1)]
    strata = max(check_count("steps", steps) - 1, 1)
    u = torch.rand((strata, rows), generator=generator, dtype=torch.float64)
    drawn = ((torch.arange(strata)[:, None] + u) * (rest / strata)).long().clamp(max=rest - 1) + 2
    return [(first, 1.0), *((t, rest / strata) for t in drawn)]


def log_normal_mass(lower: Tensor, upper: Tensor) -> Tensor:
    """log(Phi(upper) - Phi(lower)) for lower < upper, without cancellation in either tail."""
    flip = lower + upper > 0
    low, high = torch.where(flip, -upper, lower), torch.where(flip, -lower, upper)
    log_high, log_low = torch.special.log_ndtr(high), torch.special.log_ndtr(low)
    mass: Tensor = log_high + torch.log(-torch.expm1(log_low - log_high))
    return mass
