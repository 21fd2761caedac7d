"""Heads for values out of a small set: Categorical and Bernoulli."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from mac_policy.common.checks import check_choice, check_count, check_positive
from mac_policy.core.heads.head import Head, draw_index, take, uniform

Encoding = Literal["onehot", "scalar"]


def as_index(x: Tensor, num_values: int) -> Tensor:
    """Values as long indices in 0..num_values-1; what is no such value becomes some index inside."""
    if not x.is_floating_point():
        return x.long().clamp(0, num_values - 1)
    return x.nan_to_num(0.0, 0.0, 0.0).clamp(0, num_values - 1).long()


def is_level(x: Tensor, num_values: int) -> Tensor:
    """Whether each value is an integer in 0..num_values-1."""
    if not x.is_floating_point():
        x = x.long()  # 256 is no number of eight bits
    inside = (x >= 0) & (x < num_values)
    return inside & (x == x.floor()) if x.is_floating_point() else inside


class CategoricalConditional:
    """p(x = k) = softmax(logits)_k; at temperature T the logits are divided by T."""

    def __init__(self, logits: Tensor) -> None:
        self.log_probs = logits.log_softmax(-1)  # (..., K)

    @property
    def batch_shape(self) -> torch.Size:
        return self.log_probs.shape[:-1]

    def log_prob(self, x: Tensor) -> Tensor:
        size = self.log_probs.shape[-1]
        log_prob = take(self.log_probs, as_index(x, size))
        return log_prob.masked_fill(~is_level(x, size), -torch.inf)

    def sample(self, temperature: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
        check_positive("temperature", temperature)
        return draw_index(self.log_probs / temperature, generator)

    @property
    def mode(self) -> Tensor:
        return self.log_probs.argmax(-1)

    @property
    def mean(self) -> Tensor:
        levels = torch.arange(self.log_probs.shape[-1], device=self.log_probs.device, dtype=self.log_probs.dtype)
        return (self.log_probs.exp() * levels).sum(-1)

    def log_prob_grid(self, points: Tensor) -> Tensor:
        size = self.log_probs.shape[-1]
        columns = self.log_probs[..., as_index(points, size)]
        return columns.masked_fill(~is_level(points, size), -torch.inf)


class LevelHead(Head):
    """A head for the integers 0..num_levels-1, which a network sees as one number in [-1, 1]."""

    discrete = True
    num_features = 1

    def __init__(self, num_levels: int) -> None:
        super().__init__()
        self.num_levels = num_levels
        self.allowed = f"an integer in 0..{num_levels - 1}" if num_levels > 2 else "0 or 1"

    def features(self, x: Tensor, variables: Tensor | None = None) -> Tensor:
        dtype = x.dtype if x.is_floating_point() else torch.get_default_dtype()
        return as_index(x, self.num_levels)[..., None].to(dtype) * (2 / (self.num_levels - 1)) - 1

    def valid(self, x: Tensor) -> Tensor:
        return is_level(x, self.num_levels)


class Categorical(LevelHead):
    """One of ``num_classes`` values 0..K-1, by K logits.

    ``encoding`` says how a network sees an observed value: ``'onehot'`` as K numbers, ``'scalar'`` as one
    number, 0..K-1 mapped to [-1, 1] (for values whose order means something). There is no class for
    'unseen': that is the evidence bits' business.

        head = Categorical(27)
        head(network_output).sample(temperature=0.8, generator=generator)
    """

    def __init__(self, num_classes: int, encoding: Encoding = "onehot") -> None:
        super().__init__(check_count("num_classes", num_classes, 2))
        self.encoding = check_choice("encoding", encoding, get_args(Encoding))
        self.num_classes = self.num_params = num_classes
        self.num_features = num_classes if encoding == "onehot" else 1

    def features(self, x: Tensor, variables: Tensor | None = None) -> Tensor:
        if self.encoding == "scalar":
            return super().features(x)
        dtype = x.dtype if x.is_floating_point() else torch.get_default_dtype()
        levels = torch.arange(self.num_classes, device=x.device)
        return (as_index(x, self.num_classes)[..., None] == levels).to(dtype)

    def forward(
        self, params: Tensor, variables: Tensor | None = None, generator: torch.Generator | None = None
    ) -> CategoricalConditional:
        return CategoricalConditional(self._read(params))


class BernoulliConditional:
    """p(x = 1) = sigmoid(logit); at temperature T the logit is divided by T."""

    def __init__(self, logit: Tensor) -> None:
        self.logit = logit  # (...)

    @property
    def batch_shape(self) -> torch.Size:
        return self.logit.shape

    def log_prob(self, x: Tensor) -> Tensor:
        log_prob = torch.where(x == 1, logsigmoid(self.logit), logsigmoid(-self.logit))
        return log_prob.masked_fill(~is_level(x, 2), -torch.inf)

    def sample(self, temperature: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
        check_positive("temperature", temperature)
        u = uniform(self.logit.shape, self.logit, generator)
        return (u < (self.logit / temperature).sigmoid()).long()

    @property
    def mode(self) -> Tensor:
        return (self.logit > 0).long()

    @property
    def mean(self) -> Tensor:
        return self.logit.sigmoid()

    def log_prob_grid(self, points: Tensor) -> Tensor:
        return BernoulliConditional(self.logit[..., None]).log_prob(points)


class Bernoulli(LevelHead):
    """0 or 1 by one logit; a network sees an observed value as -1 or 1."""

    num_params = 1

    def __init__(self) -> None:
        super().__init__(2)

    def forward(
        self, params: Tensor, variables: Tensor | None = None, generator: torch.Generator | None = None
    ) -> BernoulliConditional:
        return BernoulliConditional(self._read(params)[..., 0])
