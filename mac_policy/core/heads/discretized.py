"""Head for integer values on an ordered scale: a mixture of logistics, cut into one bin for each level."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from mac_policy.common.checks import check_count, check_positive
from mac_policy.core.heads.discrete import as_index, is_level
from mac_policy.core.heads.head import Head, bounded, draw_index, take, unbounded, uniform

MIN_LOG_SCALE = -7.0
MAX_LOG_SCALE = 3.0
LEVELS_AT_ONCE = 16


class DiscretizedLogisticConditional:
    """p(x = l) = sum_k w_k (F_k(upper edge of bin l) - F_k(lower edge)), F_k a logistic CDF.

    Level l of L has its centre at 2 l / (L - 1) - 1; the first bin reaches down to minus and the last up to
    plus infinity, so the probabilities add up to one whatever the parameters. ``mode``, ``mean`` and samples at a
    temperature T, from p^(1/T), are exact, by enumerating the levels.
    """

    def __init__(self, logits: Tensor, means: Tensor, log_scales: Tensor, num_levels: int) -> None:
        self.log_weights = logits.log_softmax(-1)  # (..., K)
        self.means = means  # (..., K)
        self.log_scales = log_scales  # (..., K)
        self.num_levels = num_levels

    @property
    def batch_shape(self) -> torch.Size:
        return self.means.shape[:-1]

    def log_prob(self, x: Tensor) -> Tensor:
        level = as_index(x, self.num_levels)
        log_prob = self._log_prob(level[..., None], self.log_weights, self.means, self.log_scales)
        return log_prob.masked_fill(~is_level(x, self.num_levels), -torch.inf)

    def _log_prob(self, level: Tensor, log_weights: Tensor, means: Tensor, log_scales: Tensor) -> Tensor:
        return (log_weights + component_log_probs(level, means, log_scales, self.num_levels)).logsumexp(-1)

    def log_prob_grid(self, points: Tensor) -> Tensor:
        level = as_index(points, self.num_levels)[:, None]
        parts = (p[..., None, :] for p in (self.log_weights, self.means, self.log_scales))
        log_prob = self._log_prob(level, *parts)
        return log_prob.masked_fill(~is_level(points, self.num_levels), -torch.inf)

    def sample(self, temperature: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
        check_positive("temperature", temperature)
        if temperature != 1:
            log_probs = torch.cat([log_probs for _, log_probs in self._chunks()], -1)  # (..., L)
            return draw_index(log_probs / temperature, generator)
        component = draw_index(self.log_weights, generator)
        noise = uniform(component.shape, self.means, generator).logit()
        value = take(self.means, component) + take(self.log_scales, component).exp() * noise
        level = ((value + 1) * (0.5 * (self.num_levels - 1))).round()
        return level.clamp(0, self.num_levels - 1).long()

    def _chunks(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Levels ``(G,)`` and their log probabilities ``(..., G)``, few at once to save memory."""
        for start in range(0, self.num_levels, LEVELS_AT_ONCE):
            end = min(start + LEVELS_AT_ONCE, self.num_levels)
            levels = torch.arange(start, end, device=self.means.device)
            yield levels, self.log_prob_grid(levels)

    @property
    def mode(self) -> Tensor:
        best = torch.zeros(self.batch_shape, dtype=torch.long, device=self.means.device)
        highest = torch.full_like(self.means[..., 0], -torch.inf)
        for levels, log_probs in self._chunks():
            value, index = log_probs.max(-1)
            best = torch.where(value > highest, levels[index], best)
            highest = torch.maximum(value, highest)
        return best

    @property
    def mean(self) -> Tensor:
        total = torch.zeros_like(self.means[..., 0])
        for levels, log_probs in self._chunks():
            total = total + (log_probs.exp() * levels).sum(-1)
        return total


def component_log_probs(level: Tensor, means: Tensor, log_scales: Tensor, num_levels: int) -> Tensor:
    """log(F(upper edge) - F(lower edge)) of logistics (..., K), for levels that broadcast to them."""
    half_bin = 1 / (num_levels - 1)
    centre = level.to(means.dtype) * (2 * half_bin) - 1
    inverse = (-log_scales).exp()
    upper, lower = (centre + half_bin - means) * inverse, (centre - half_bin - means) * inverse
    # sigmoid(u) - sigmoid(l) = sigmoid(u) sigmoid(-l) (1 - exp(l - u)), and each factor's logarithm is
    # safe; the last one is missing where one of the edges is infinite.
    first, last = level == 0, level == num_levels - 1
    log_below = logsigmoid(upper).masked_fill(last, 0.0)
    log_above = logsigmoid(-lower).masked_fill(first, 0.0)
    log_inside = (-torch.expm1(-2 * half_bin * inverse)).log().expand(log_below.shape)
    return log_below + log_above + log_inside.masked_fill(first | last, 0.0)


class DiscretizedLogisticMixture(Head):
    """Integers 0..num_levels-1 (2..256 levels) by K logits, K means and K log scales.

    Zero parameters are near the uniform distribution, with components spread over the levels. A network
    sees an observed value as one number in [-1, 1].

        head = DiscretizedLogisticMixture(256, num_components=30)
        head(network_output).log_prob(pixels)
    """

    discrete = True
    num_features = 1
    spread: Tensor

    def __init__(self, num_levels: int, num_components: int = 10) -> None:
        super().__init__()
        self.num_levels = check_count("num_levels", num_levels, 2)
        if num_levels > 256:
            raise ValueError(f"num_levels must be a whole number in 2..256, got {num_levels}")
        self.num_components = check_count("num_components", num_components)
        self.num_params = 3 * self.num_components
        self.allowed = f"an integer in 0..{num_levels - 1}"
        spread = (2 * torch.arange(num_components) + 1) / num_components - 1
        self.register_buffer("spread", spread, persistent=False)
        start = math.log(min(0.35, 0.6 / num_components))
        self.start = unbounded(start, MIN_LOG_SCALE, MAX_LOG_SCALE)

    def features(self, x: Tensor) -> Tensor:
        dtype = x.dtype if x.is_floating_point() else torch.get_default_dtype()
        return as_index(x, self.num_levels)[..., None].to(dtype) * (2 / (self.num_levels - 1)) - 1

    def forward(
        self, params: Tensor, variables: Tensor | None = None, generator: torch.Generator | None = None
    ) -> DiscretizedLogisticConditional:
        logits, means, raw = self._read(params)[..., : 3 * self.num_components].chunk(3, -1)
        log_scales = bounded(raw + self.start, MIN_LOG_SCALE, MAX_LOG_SCALE)
        means = means + self.spread.to(means.dtype)
        return DiscretizedLogisticConditional(logits, means, log_scales, self.num_levels)

    def valid(self, x: Tensor) -> Tensor:
        return is_level(x, self.num_levels)

    def extra_repr(self) -> str:
        return f"{self.num_levels}, num_components={self.num_components}"
