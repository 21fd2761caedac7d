"""Head for the channels of a pixel that are answered in one step: a mixture over whole pixels."""

from __future__ import annotations

import torch
from torch import Tensor

from mac_policy.common.checks import check_count
from mac_policy.core.heads.discretized import (
    MAX_LOG_SCALE,
    MIN_LOG_SCALE,
    DiscretizedLogisticMixture,
    component_log_probs,
)
from mac_policy.core.heads.head import bounded


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

    def log_scales(self, raw: Tensor) -> Tensor:
        return bounded(raw + self.start, MIN_LOG_SCALE, MAX_LOG_SCALE)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, channels={self.channels}"
