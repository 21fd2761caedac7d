"""A denoising diffusion model (Ho et al. 2020) that imputes by RePaint (Lugmayr et al. 2022)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from mac_policy.common.checks import check_choice, check_count
from mac_policy.core.heads import Head
from mac_policy.core.heads.continuous import HALF_LOG_2PI, normal
from mac_policy.rows.baselines.baseline import Baseline
from mac_policy.rows.baselines.networks import Denoiser
from mac_policy.rows.baselines.schedule import (
    Schedule,
    chosen_times,
    log_normal_mass,
    log_posterior_ratio,
    log_prior_ratio,
    make_schedule,
    repaint_times,
)


class DDPM(Baseline):
    """A DDPM of rows: a network reads a noisy row and its time step and predicts the noise.

    shape, levels, head: see `Baseline`; of the head, only the encoding of a value as one number is used.
    network: kind and sizes of an any-order network, whose evidence is the whole noisy row and whose context is the
    time step. num_steps, schedule: see `make_schedule`. variance: variance of a reverse step, 'beta' (exact for
    standard normal rows) or 'posterior' (exact for constant rows).
    jump_length, resamplings: of RePaint; the jump is given in steps of the full schedule and is scaled down for fewer
    steps. sampling_steps: default number of steps of `sample`, None for all.

    Imputation costs about `resamplings` network passes per step, unconditional sampling one pass per step.

    `log_prob` returns the variational bound of whole rows, from one sample of the noise; its expectation is at most
    log p. A DDPM has neither marginal nor conditional likelihoods.

    >>> import torch
    >>> from mac_policy.rows.baselines import DDPM
    >>> from mac_policy.core.heads import Gaussian
    >>> ddpm = DDPM((9,), None, Gaussian(), {"kind": "mlp", "width": 32, "depth": 3}, num_steps=50)
    >>> ddpm.impute(torch.zeros(2, 9), given=torch.arange(9) < 4, num_samples=3).shape
    torch.Size([2, 3, 9])
    """

    densities = ("model",)
    any_query = False
    signal: Tensor

    def __init__(
        self,
        shape: Sequence[int],
        levels: int | None,
        head: Head,
        network: Mapping[str, Any] | None = None,
        *,
        num_steps: int = 1000,
        schedule: str = "linear",
        variance: str = "beta",
        jump_length: int = 10,
        resamplings: int = 10,
        sampling_steps: int | None = None,
    ) -> None:
        super().__init__(shape, levels, head)
        if head.num_features != 1:
            raise ValueError(f"a DDPM needs a head that shows a value as one number, not {head.num_features}")
        self.jump_length = check_count("jump_length", jump_length)
        self.resamplings = check_count("resamplings", resamplings)
        self.sampling_steps = None if sampling_steps is None else check_count("sampling_steps", sampling_steps)
        self.variance = check_choice("variance", variance, ("beta", "posterior"))
        self.register_buffer("signal", make_schedule(num_steps, schedule).signal, persistent=False)
        self.num_steps = self.most_steps = len(self.signal) - 1
        self.denoiser: nn.Module = Denoiser(network or self._default_network(), self.shape)

    @property
    def schedule(self) -> Schedule:
        return Schedule(self.signal.double(), torch.arange(self.num_steps + 1, device=self.signal.device))

    # ---- training ----

    def draw(self, n: int, generator: torch.Generator) -> Tensor:
        """The time step of each row, (n,) long in 1..T."""
        return torch.randint(1, self.num_steps + 1, (n,), generator=generator)

    def forward(
        self,
        x: Tensor,
        draws: Tensor,
        generator: torch.Generator | None = None,
        energy_weight: float = 1.0,
        missing: Tensor | None = None,
    ) -> Tensor:
        """The mean squared error of the predicted noise (L_simple of Ho et al. 2020)."""
        if missing is not None and bool(missing.any()):
            raise ValueError("a DDPM trains on whole rows: it cannot take missing values")
        clean = self._numbers(x)
        noise = normal(clean.shape, clean, generator)
        noisy = self.schedule.noised(clean, noise, 0, draws)
        return (self.predicted_noise(noisy, draws) - noise).square().mean()

    def predicted_noise(self, noisy: Tensor, times: Tensor) -> Tensor:
        """The noise (B, N) in noisy rows at times (B,) of the full schedule."""
        noise: Tensor = self.denoiser(noisy, times / self.num_steps)
        return noise

    # ---- the bound ----

    @torch.no_grad()
    def log_prob(
        self,
        x: Tensor,
        *,
        query: Tensor,
        given: Tensor,
        generator: torch.Generator | None = None,
        orders: int = 1,
        steps: int | None = None,
        step_generator: torch.Generator | None = None,
    ) -> dict[str, Tensor]:
        """The variational bound (B,), estimated from one sample of the noise at each of the T times.

        steps: estimate the bound without bias from that many times, the first and one of each equal stratum of the
        others; orders: the number of estimates that are averaged.
        """
        x, query, given = self._question(x, query, given)
        if not bool(query.all()):
            raise ValueError(
                "a DDPM has a bound of the likelihood of whole rows only: query every variable, given nothing"
            )
        found = [self._bound(self._numbers(x), x, steps, generator, step_generator) for _ in range(orders)]
        return {"model": torch.stack(found).mean(0)}

    def _bound(
        self,
        clean: Tensor,
        x: Tensor,
        steps: int | None,
        generator: torch.Generator | None,
        step_generator: torch.Generator | None,
    ) -> Tensor:
        schedule = self.schedule
        total = log_prior_ratio(clean.double(), schedule.signal[-1])
        for t, weight in chosen_times(len(clean), self.num_steps, steps, step_generator):
            here = t.to(clean.device)
            noise = normal(clean.shape, clean, generator)
            noisy = schedule.noised(clean, noise, 0, here)
            total = total + weight * self._term(clean, x, noisy, here, schedule)
        return total

    def _term(self, clean: Tensor, x: Tensor, noisy: Tensor, t: Tensor, schedule: Schedule) -> Tensor:
        """log p(x_0 | x_1) where all t are 1; - KL(q(x_{t-1} | x_t, x_0) || p(x_{t-1} | x_t)) where none is."""
        mean, variance = self._backwards(noisy, t, schedule)
        if bool((t == 1).all()):
            log_std = 0.5 * math.log(float(schedule.beta(torch.tensor(1))))
            return self._log_prob_of_values(x, clean, mean, log_std).sum(1).double()
        exact = schedule.posterior_mean(clean, noisy, t)
        return log_posterior_ratio(exact.double(), schedule.posterior_variance(t), mean.double(), variance)

    def _log_prob_of_values(self, x: Tensor, clean: Tensor, mean: Tensor, log_std: float) -> Tensor:
        """The log density of real numbers, or the log mass in the bins of levels, whose outer bins are unbounded."""
        if self.levels is None:
            return -0.5 * ((clean - mean) * math.exp(-log_std)).square() - log_std - HALF_LOG_2PI
        half = 1 / (self.levels - 1)
        upper = ((clean + half - mean) * math.exp(-log_std)).masked_fill(x == self.levels - 1, math.inf)
        lower = ((clean - half - mean) * math.exp(-log_std)).masked_fill(x == 0, -math.inf)
        return log_normal_mass(lower, upper)

    # ---- samples ----

    def _completions(
        self,
        x: Tensor,
        given: Tensor,
        num_samples: int,
        steps: int | None,
        temperature: float,
        generator: torch.Generator | None,
    ) -> Tensor:
        """RePaint if a variable of any row is given, otherwise ancestral sampling.

        steps: number of times of the schedule that are used. The temperature T scales the variance of all noise, which
        approximates p^(1/T).
        """
        steps = steps or self.sampling_steps
        schedule = self.schedule if steps is None else self.schedule.respaced(steps)
        times: Sequence[int] = range(schedule.num_steps, -1, -1)
        if bool(given.any()):
            jump = max(1, round(self.jump_length * schedule.num_steps / self.num_steps))
            times = repaint_times(schedule.num_steps, jump, self.resamplings)
        clean, known = self._numbers(x).repeat(num_samples, 1), given.repeat(num_samples, 1)
        pieces = zip(clean.split(self.rows_per_pass), known.split(self.rows_per_pass), strict=True)
        drawn = [self._walk(a, b, schedule, times, math.sqrt(temperature), generator) for a, b in pieces]
        return self._values(torch.cat(drawn)).view(num_samples, *x.shape)

    def _walk(
        self,
        clean: Tensor,
        known: Tensor,
        schedule: Schedule,
        times: Sequence[int],
        scale: float,
        generator: torch.Generator | None,
    ) -> Tensor:
        """Rows denoised along `times`. Known values are replaced by their own noised values at every time."""
        noisy = scale * normal(clean.shape, clean, generator)
        for now, after in pairwise(times):
            t = torch.full((len(clean),), max(now, after), device=clean.device)
            if after > now:
                noisy = schedule.noised(noisy, scale * normal(clean.shape, clean, generator), now, t)
                continue
            mean, variance = self._backwards(noisy, t, schedule)
            noise = scale * normal(clean.shape, clean, generator) if after > 0 else torch.zeros_like(clean)
            noisy = mean + variance.sqrt().to(clean.dtype)[:, None] * noise
            own = schedule.noised(clean, normal(clean.shape, clean, generator), 0, t - 1)
            noisy = torch.where(known, own, noisy)
        return noisy

    def _backwards(self, noisy: Tensor, t: Tensor, schedule: Schedule) -> tuple[Tensor, Tensor]:
        """Mean (B, N) and variance (B,) of p(x_{t-1} | x_t)."""
        signal = schedule.signal[t].to(noisy.dtype)[:, None]
        noise = self.predicted_noise(noisy, schedule.full_times[t])
        clean = (noisy - (1 - signal).sqrt() * noise) / signal.sqrt()
        if self.levels is not None:
            clean = clean.clamp(-1, 1)
        beta = schedule.beta(t)
        variance = beta if self.variance == "beta" else torch.where(t > 1, schedule.posterior_variance(t), beta)
        return schedule.posterior_mean(clean, noisy, t), variance

    def _numbers(self, x: Tensor) -> Tensor:
        """The numbers that are diffused: levels scaled to [-1, 1], real numbers unchanged."""
        return self.head.features(x)[..., 0].to(self._float)

    def _values(self, numbers: Tensor) -> Tensor:
        if self.levels is None:
            return numbers
        return ((numbers + 1) * (0.5 * (self.levels - 1))).round().clamp(0, self.levels - 1).long()
