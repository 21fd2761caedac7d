"""Heads for integers on an ordered scale: mixtures of logistics, discretised to one bin a level."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from mac_policy.common.checks import check_count, check_positive
from mac_policy.core.heads.discrete import LevelHead, as_index, is_level
from mac_policy.core.heads.head import MOST_COMPONENTS, bounded, draw_index, take, unbounded, uniform

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


class DiscretizedLogisticMixture(LevelHead):
    """Integers 0..num_levels-1 (2..256 levels) by K logits, K means and K log scales.

    Zero parameters are near the uniform distribution, with components spread over the levels. A network
    sees an observed value as one number in [-1, 1].

        head = DiscretizedLogisticMixture(256, num_components=30)
        head(network_output).log_prob(pixels)
    """

    spread: Tensor

    def __init__(self, num_levels: int, num_components: int = 10) -> None:
        super().__init__(check_count("num_levels", num_levels, 2))
        if num_levels > 256:
            raise ValueError(f"num_levels must be a whole number in 2..256, got {num_levels}")
        self.num_components = check_count("num_components", num_components, most=MOST_COMPONENTS)
        self.num_params = 3 * self.num_components
        spread = (2 * torch.arange(num_components) + 1) / num_components - 1
        self.register_buffer("spread", spread, persistent=False)
        start = math.log(min(0.35, 0.6 / num_components))
        self.start = unbounded(start, MIN_LOG_SCALE, MAX_LOG_SCALE)

    def forward(
        self, params: Tensor, variables: Tensor | None = None, generator: torch.Generator | None = None
    ) -> DiscretizedLogisticConditional:
        logits, means, raw = self._read(params)[..., : 3 * self.num_components].chunk(3, -1)
        means = means + self.spread.to(means.dtype)
        return DiscretizedLogisticConditional(logits, means, self.log_scales(raw), self.num_levels)

    def log_scales(self, raw: Tensor) -> Tensor:
        return bounded(raw + self.start, MIN_LOG_SCALE, MAX_LOG_SCALE)


class PixelLogisticMixture(DiscretizedLogisticMixture):
    """PixelCNN++'s mixture of discretised logistics (Salimans et al. 2017) over the `channels` of a pixel together.

    One weight a component for the whole pixel, and means that move with the values of the channels before:

        p(r, g, b) = sum_k w_k p_k(r) p_k(g; m_g + a r) p_k(b; m_b + b r + c g)

    By the chain rule this is a mixture of logistics for every channel given those before it, with weights w_k p_k(r),
    w_k p_k(r) p_k(g); `after` makes the parameters of these, so that all else sees univariate conditionals. A channel
    that is asked without those before it has weights w_k and means of its own. Variables are numbered channel by
    channel. With one channel it is a DiscretizedLogisticMixture.

        head = PixelLogisticMixture(256, num_components=30, channels=3)
    """

    def __init__(self, num_levels: int, num_components: int = 10, channels: int = 1) -> None:
        super().__init__(num_levels, num_components)
        self.channels = check_count("channels", channels)
        self.num_params = (
            2 + channels
        ) * num_components  # logits, means, log scales, and a slope for each other channel

    @property
    def num_turns(self) -> int:
        return self.channels

    def turn(self, variables: Tensor, num_variables: int) -> Tensor:
        return variables * self.channels // num_variables

    def after(self, params: Tensor, x: Tensor, together: Tensor) -> Tensor:
        if self.channels == 1:
            return params
        rows, variables = x.shape
        split = (rows, self.channels, variables // self.channels)
        raw = self._read(params).view(*split, self.channels + 2, self.num_components)
        logits, means, raw_scales, slopes = raw.split([1, 1, 1, self.channels - 1], 3)
        log_weights = logits[..., 0, :].mean(1).log_softmax(-1)  # (R, S, K), one for the pixel
        means, log_scales = means[..., 0, :], self.log_scales(raw_scales[..., 0, :])
        levels, values = x.view(split)[..., None], self.features(x).view(*split, 1)
        asked = together.view(split)[..., None]
        found = []
        for channel in range(self.channels):
            mean = means[:, channel]
            for other in range(channel):
                slope = slopes[:, channel, :, other].tanh()
                mean = mean + slope * torch.where(asked[:, other], values[:, other], 0.0)
            found.append(torch.stack([log_weights, mean, raw_scales[:, channel, :, 0]], 2))
            terms = component_log_probs(
                levels[:, channel], mean + self.spread.to(mean.dtype), log_scales[:, channel], self.num_levels
            )
            log_weights = log_weights + torch.where(asked[:, channel], terms, 0.0)
        done = torch.stack(found, 1)  # (R, C, S, 3, K)
        return torch.cat([done, slopes], 3).view_as(params)
