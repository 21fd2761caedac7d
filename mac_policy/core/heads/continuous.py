"""Heads for real values: Gaussian and a mixture of Gaussians."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from mac_policy.common.checks import check_count, check_positive, is_number
from mac_policy.core.heads.head import (
    MOST_COMPONENTS,
    Head,
    at_least_float32,
    bounded,
    draw_index,
    take,
    unbounded,
    uniform,
)

MIN_LOG_STD = -7.0
MAX_LOG_STD = 7.0
HALVINGS = 60
HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def normal(shape: torch.Size, like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Standard normal numbers with the dtype and device of ``like``, by inverting the CDF."""
    noise: Tensor = torch.special.ndtri(uniform(shape, like, generator))
    return noise


def gaussian_log_prob(x: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    return -0.5 * ((x - mean) * (-log_std).exp()).square() - log_std - HALF_LOG_2PI


class GaussianConditional:
    """N(mean, std^2); p^(1/T) is N(mean, T std^2), so temperature T samples with std sqrt(T)."""

    def __init__(self, mean: Tensor, log_std: Tensor) -> None:
        self.mean = mean  # (...)
        self.log_std = log_std  # (...)

    @property
    def batch_shape(self) -> torch.Size:
        return self.mean.shape

    def log_prob(self, x: Tensor) -> Tensor:
        return gaussian_log_prob(x, self.mean, self.log_std)

    def sample(self, temperature: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
        check_positive("temperature", temperature)
        noise = normal(self.mean.shape, self.mean, generator)
        return self.mean + math.sqrt(temperature) * self.log_std.exp() * noise

    @property
    def mode(self) -> Tensor:
        return self.mean

    def log_prob_grid(self, points: Tensor) -> Tensor:
        return gaussian_log_prob(points, self.mean[..., None], self.log_std[..., None])


class MixtureConditional:
    """sum_k w_k N(m_k, s_k^2).

    Temperature acts on each component: (w_k N(m_k, s_k^2))^(1/T) is a Gaussian of standard deviation s_k sqrt(T)
    with mass ~ w_k^(1/T) s_k^(1-1/T). Their sum is p^(1/T) for one component, and comes close to it as the
    components move apart; where they overlap it is another density. ``mode`` is the component mean of highest density.
    """

    def __init__(self, logits: Tensor, means: Tensor, log_stds: Tensor) -> None:
        self.log_weights = logits.log_softmax(-1)  # (..., K)
        self.means = means  # (..., K)
        self.log_stds = log_stds  # (..., K)

    @property
    def batch_shape(self) -> torch.Size:
        return self.means.shape[:-1]

    def log_prob(self, x: Tensor) -> Tensor:
        parts = gaussian_log_prob(x[..., None], self.means, self.log_stds)
        return (self.log_weights + parts).logsumexp(-1)

    def sample(self, temperature: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
        return self.tempered(temperature).draw(generator)

    def tempered(self, temperature: float) -> MixtureConditional:
        """The mixture at this temperature."""
        check_positive("temperature", temperature)
        logits = self.log_weights / temperature + (1 - 1 / temperature) * self.log_stds
        return MixtureConditional(logits, self.means, self.log_stds + 0.5 * math.log(temperature))

    def draw(self, generator: torch.Generator | None) -> Tensor:
        component = draw_index(self.log_weights, generator)
        noise = normal(component.shape, self.means, generator)
        return take(self.means, component) + take(self.log_stds, component).exp() * noise

    def expand_last(self, size: int) -> MixtureConditional:
        """The same mixtures repeated along a new last batch axis: ``(...)`` becomes ``(..., size)``."""
        parts = (self.log_weights, self.means, self.log_stds)
        return MixtureConditional(*(p[..., None, :].expand(*p.shape[:-1], size, p.shape[-1]) for p in parts))

    @property
    def mean(self) -> Tensor:
        return (self.log_weights.exp() * self.means).sum(-1)

    @property
    def std(self) -> Tensor:
        spread = (2 * self.log_stds).exp() + (self.means - self.mean[..., None]).square()
        variance: Tensor = (self.log_weights.exp() * spread).sum(-1)
        deviation: Tensor = variance.sqrt()
        return deviation

    def quantile(self, level: float) -> Tensor:
        """The value below which the probability is `level`, by bisection; infinite at levels 0 and 1."""
        ends: Tensor = torch.special.ndtri(torch.tensor(level, dtype=self.means.dtype, device=self.means.device))
        if not ends.isfinite():
            return ends.expand(self.batch_shape).clone()
        each = self.means + self.log_stds.exp() * ends  # the quantiles of the components: the mixture's lies between
        low, high = each.amin(-1), each.amax(-1)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            scaled = (middle[..., None] - self.means) * (-self.log_stds).exp()
            below = (self.log_weights.exp() * torch.special.ndtr(scaled)).sum(-1) < level
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        found: Tensor = (low + high) / 2
        return found

    @property
    def mode(self) -> Tensor:
        density = self.expand_last(self.means.shape[-1]).log_prob(self.means)  # (..., K)
        return take(self.means, density.argmax(-1))

    def log_prob_grid(self, points: Tensor) -> Tensor:
        return self.expand_last(1).log_prob(points)


class RealHead(Head):
    """A head for real values, which a network sees as they are."""

    discrete = False
    num_features = 1
    allowed = "a finite number"

    def features(self, x: Tensor, variables: Tensor | None = None) -> Tensor:
        return at_least_float32(x)[..., None]

    def valid(self, x: Tensor) -> Tensor:
        return x.isfinite()


def check_min_log_std(min_log_std: float | None) -> float:
    if min_log_std is None:
        return MIN_LOG_STD
    if not is_number(min_log_std) or not MIN_LOG_STD <= min_log_std < 0:
        raise ValueError(
            f"min_log_std is {min_log_std!r}: it must be None or a number from {MIN_LOG_STD} up to, but not, 0"
        )
    return min_log_std


class Gaussian(RealHead):
    """N(a, exp(b)^2) of the parameters (a, b); (0, 0) is the standard normal.

    b is shifted and kept smoothly inside [min_log_std, 7]; None is -7, a standard deviation of about 1e-3.
    """

    num_params = 2

    def __init__(self, min_log_std: float | None = None) -> None:
        super().__init__()
        self.min_log_std = check_min_log_std(min_log_std)

    def forward(
        self, params: Tensor, variables: Tensor | None = None, generator: torch.Generator | None = None
    ) -> GaussianConditional:
        mean, raw = self._read(params).unbind(-1)
        start = unbounded(0.0, self.min_log_std, MAX_LOG_STD)
        return GaussianConditional(mean, bounded(raw + start, self.min_log_std, MAX_LOG_STD))

    def moved(self, params: Tensor, shift: Tensor, scale: Tensor, variables: Tensor | int | None = None) -> Tensor:
        mean, raw = self._read(params).unbind(-1)
        return torch.stack([shift + scale * mean, raw], -1)


class GaussianMixture(RealHead):
    """A mixture of K Gaussians by K logits, K means and K log standard deviations.

    Zero parameters give about the standard normal, made of components that differ: their means start at
    quantiles of it, so that they are not equal copies which equal gradients would keep equal. The log
    standard deviations are kept smoothly inside [min_log_std, 7]; None is -7. A floor (exp(-1.5) in
    normalised units, say) keeps the likelihood from running after single data points.

        head = GaussianMixture(20, min_log_std=-1.5)
        head(network_output).log_prob(actions)
    """

    spread: Tensor
    __call__: Callable[..., MixtureConditional]

    def __init__(self, num_components: int, min_log_std: float | None = None) -> None:
        super().__init__()
        self.num_components = check_count("num_components", num_components, most=MOST_COMPONENTS)
        self.min_log_std = check_min_log_std(min_log_std)
        self.num_params = 3 * self.num_components
        self.register_buffer("spread", component_spread(self.num_components), persistent=False)
        start = math.log(0.6) if self.num_components > 1 else 0.0
        self.start = unbounded(start, self.min_log_std, MAX_LOG_STD)

    def forward(
        self, params: Tensor, variables: Tensor | None = None, generator: torch.Generator | None = None
    ) -> MixtureConditional:
        logits, means, raw = self._read(params).chunk(3, -1)
        log_stds = bounded(raw + self.start, self.min_log_std, MAX_LOG_STD)
        return MixtureConditional(logits, means + self.spread.to(means.dtype), log_stds)

    def moved(self, params: Tensor, shift: Tensor, scale: Tensor, variables: Tensor | int | None = None) -> Tensor:
        logits, means, raw = self._read(params).chunk(3, -1)
        spread = self.spread.to(means.dtype)
        return torch.cat([logits, shift[..., None] + scale[..., None] * (means + spread) - spread, raw], -1)


def component_spread(num_components: int) -> Tensor:
    """``(K,)`` where components start: 0.8 times the standard normal's quantiles (0 for one component)."""
    levels = (torch.arange(num_components, dtype=torch.float64) + 0.5) / num_components
    quantiles: Tensor = torch.special.ndtri(levels)
    return (0.8 * quantiles).to(torch.get_default_dtype())
