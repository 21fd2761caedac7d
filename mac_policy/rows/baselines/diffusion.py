"""A denoising diffusion model (Ho et al. 2020) that fills in by RePaint (Lugmayr et al. 2022)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args

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
    downwards,
    log_normal_mass,
    log_posterior_ratio,
    log_prior_ratio,
    make_schedule,
    repaint_times,
)

Variance = Literal["beta", "posterior"]


class Times(NamedTuple):
    """The noise level of each row in a training step."""

    t: Tensor  # (n,) long, 1..T

    def to(self, device: torch.device | str) -> Times:
        return Times(self.t.to(device))


class DDPM(Baseline):
    """Noise is added to rows in `num_steps` steps; a network that is told the step learns to predict it.

    shape, levels, head: as `Baseline`; the head says only how values are shown to a network as one number each.
    network: kind and sizes of an any-order network, told that everything is seen, with the step as its context.
    variance: of a step back, 'beta' or 'posterior' (exact for rows of standard normal numbers and of constants).
    jump_length, resamplings: of RePaint, the jump in steps of the whole schedule: in fewer steps it is as much shorter,
    so that it covers the same share of the time; sampling_steps: steps of filling in where a call does not say, None
    for all. Filling in costs about `resamplings` network passes a step, drawing from nothing costs one.

    `log_prob` gives the variational bound of whole rows: at most log p in the mean, with one draw of the noise. A
    DDPM has no likelihood of parts of a row, given others or not.

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
        self.variance = check_choice("variance", variance, get_args(Variance))
        whole = make_schedule(num_steps, schedule)
        self.num_steps = self.most_steps = whole.num_steps
        self.register_buffer("signal", whole.signal, persistent=False)
        self.denoiser: nn.Module = Denoiser(network or self._default_network(), self.shape)

    @property
    def schedule(self) -> Schedule:
        return Schedule(self.signal.double(), torch.arange(self.num_steps + 1, device=self.signal.device))

    # ---- training ----

    def draw(self, n: int, generator: torch.Generator) -> Times:
        return Times(torch.randint(1, self.num_steps + 1, (n,), generator=generator))

    def forward(
        self,
        x: Tensor,
        draws: Times,
        generator: torch.Generator | None = None,
        energy_weight: float = 1.0,
        missing: Tensor | None = None,
    ) -> Tensor:
        """The mean squared error of the predicted noise: Ho's simple loss."""
        if missing is not None and bool(missing.any()):
            raise ValueError("a DDPM trains on whole rows: it cannot take missing values")
        clean = self._numbers(x)
        noise = normal(clean.shape, clean, generator)
        noisy = self.schedule.noised(clean, noise, 0, draws.t)
        return (self.predicted_noise(noisy, draws.t) - noise).square().mean()

    def predicted_noise(self, noisy: Tensor, told: Tensor) -> Tensor:
        """(B, N) in x at times (B,) of the whole schedule."""
        noise: Tensor = self.denoiser(noisy, told / self.num_steps)
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
        """The variational bound (B,) from one draw of the noise at each of T times, or at `steps` of them: the first,
        and one of each equal stratum of the rest, without bias. `orders` draws are averaged."""
        x, query, given = self._question(x, query, given)
        if not bool(query.all()):
            raise ValueError(
                "a DDPM has a bound of the likelihood of whole rows only: ask for every variable, given nothing"
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
        """log p(x_0 | x_1) at time 1, else - KL(q(x_{t-1} | x_t, x_0) || p(x_{t-1} | x_t)). All t are 1, or none."""
        mean, variance = self._backwards(noisy, t, schedule)
        if bool((t == 1).all()):
            log_std = 0.5 * math.log(float(schedule.beta(torch.tensor(1))))
            return self._log_prob_of_values(x, clean, mean, log_std).sum(1).double()
        exact = schedule.posterior_mean(clean, noisy, t)
        return log_posterior_ratio(exact.double(), schedule.posterior_variance(t), mean.double(), variance)

    def _log_prob_of_values(self, x: Tensor, clean: Tensor, mean: Tensor, log_std: float) -> Tensor:
        """Of a normal density, or of its mass in the bin of a level; the outer bins reach to infinity."""
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
        """RePaint where something is given, else plain sampling; `steps` of the schedule's times are walked through.
        The temperature scales the variance of all noise: an approximation of p^(1/T)."""
        steps = steps or self.sampling_steps
        schedule = self.schedule if steps is None else self.schedule.respaced(steps)
        times = downwards(schedule.num_steps)
        if bool(given.any()):
            times = repaint_times(schedule.num_steps, self._jump(schedule.num_steps), self.resamplings)
        clean, known = self._numbers(x).repeat(num_samples, 1), given.repeat(num_samples, 1)
        pieces = zip(clean.split(self.rows_per_pass), known.split(self.rows_per_pass), strict=True)
        drawn = [self._walk(a, b, schedule, times, math.sqrt(temperature), generator) for a, b in pieces]
        return self._values(torch.cat(drawn)).view(num_samples, *x.shape)

    def _jump(self, steps: int) -> int:
        """`jump_length` in `steps` steps, at least one."""
        return max(1, round(self.jump_length * steps / self.num_steps))

    def _walk(
        self,
        clean: Tensor,
        known: Tensor,
        schedule: Schedule,
        times: Sequence[int],
        scale: float,
        generator: torch.Generator | None,
    ) -> Tensor:
        """From noise to values along `times`; what is known has its own noised value at every time."""
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
        noise = self.predicted_noise(noisy, schedule.told[t])
        clean = (noisy - (1 - signal).sqrt() * noise) / signal.sqrt()
        if self.levels is not None:
            clean = clean.clamp(-1, 1)
        beta = schedule.beta(t)
        variance = beta if self.variance == "beta" else torch.where(t > 1, schedule.posterior_variance(t), beta)
        return schedule.posterior_mean(clean, noisy, t), variance

    def _numbers(self, x: Tensor) -> Tensor:
        """Values as what is diffused: numbers in [-1, 1] of levels, real numbers as they are."""
        dtype = torch.promote_types(next(self.parameters()).dtype, torch.float32)
        return self.head.features(x)[..., 0].to(dtype)

    def _values(self, numbers: Tensor) -> Tensor:
        if self.levels is None:
            return numbers
        return ((numbers + 1) * (0.5 * (self.levels - 1))).round().clamp(0, self.levels - 1).long()
