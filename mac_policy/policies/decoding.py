"""From conditionals to one action: along the path, each dimension's value is chosen and becomes evidence."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from mac_policy.core.asking import Rows, Variables
from mac_policy.core.frame import Frame
from mac_policy.core.heads import Conditional
from mac_policy.core.heads.continuous import MixtureConditional
from mac_policy.core.model import AnyOrderModel
from mac_policy.core.question import Question

Decode = Literal["mode", "sample", "mean", "best"]


class How(NamedTuple):
    """How a value is chosen from its conditional."""

    kind: str
    temperature: float

    @property
    def random(self) -> bool:
        return self.kind in ("sample", "best")


class Path(NamedTuple):
    """dims: the variables in the order they are filled in, as far as wanted; low, high (variables,) bound values."""

    dims: list[int]
    low: Tensor
    high: Tensor


def choose(kind: str, temperature: float, deterministic: bool, asked: float | None) -> How:
    """How values are chosen: a requested temperature means sampling at it (0: the mode), `deterministic` the mode."""
    if asked is not None and not 0 <= asked < math.inf:
        raise ValueError(f"temperature must be a finite number of at least 0, got {asked!r}")
    temperature = temperature if asked is None else asked
    if asked is not None and kind in ("mode", "mean"):
        kind = "sample"
    if kind in ("sample", "best") and (deterministic or temperature == 0):
        kind = "mode"
    return How(kind, temperature)


def fill(
    model: AnyOrderModel,
    context: Tensor,
    values: Tensor,
    given: Tensor,
    path: Path,
    how: How,
    noise: Tensor | None,
    frame: Frame | None = None,
) -> tuple[Tensor, Tensor]:
    """values (B, N) with what is not `given` chosen along the path, and its log-likelihood (B,).

    Rows may be given different dims: one canonical order serves all, a row skips what it was given. A row of the
    context (B / k, C) serves k rows of values that follow one another, and is read once. noise
    (B, N, 2): standard normal, for the component and for the place within it.
    """
    encoded = model.network.encode(context)
    if encoded is not None and len(encoded) < len(values):
        encoded = encoded.repeat_interleave(len(values) // len(encoded), 0)
    wanted = torch.tensor(path.dims, device=values.device)
    query = torch.zeros_like(given).index_fill(1, wanted, True) & ~given
    score = values.new_zeros(len(values))

    def choose(conditional: Conditional, rows: Rows, variables: Variables) -> Tensor:
        value = pick(conditional, how, None if noise is None else noise[rows, variables])
        value = value.clamp(path.low[variables], path.high[variables])
        held = given[rows, variables]
        if how.kind == "best":
            score[rows] += conditional.log_prob(value).masked_fill(held, 0.0)
        return torch.where(held, values[rows, variables], value)

    question = Question(values, query, given, encoded, None, frame)
    return model.asking.walk(question, path.dims, choose), score


def pick(conditional: Conditional, how: How, noise: Tensor | None) -> Tensor:
    """One value of each distribution (B,)."""
    if how.kind == "mode":
        return conditional.mode
    if how.kind == "mean":
        return conditional.mean
    if not isinstance(conditional, MixtureConditional) or noise is None:
        raise TypeError("sampling with given noise needs a mixture of Gaussians")
    return transport(conditional.tempered(how.temperature), noise)


def transport(mixture: MixtureConditional, noise: Tensor) -> Tensor:
    """Noise (..., 2) to samples (...), smoothly in both: the components lie in the order of their means, so that
    the same noise stays on the same side as the mixture moves."""
    means, order = mixture.means.sort(-1)
    cumulated = mixture.log_weights.gather(-1, order).exp().cumsum(-1)
    level = torch.special.ndtr(noise[..., 0])[..., None] * cumulated[..., -1:]
    index = (cumulated < level).sum(-1, keepdim=True).clamp(max=means.shape[-1] - 1)
    stds = mixture.log_stds.gather(-1, order).gather(-1, index).exp()
    return (means.gather(-1, index) + stds * noise[..., 1:])[..., 0]


def cdf(conditional: Conditional, x: Tensor) -> Tensor:
    """P(X <= x) of mixtures of Gaussians, (...)."""
    if not isinstance(conditional, MixtureConditional):
        raise TypeError(f"no distribution function for {type(conditional).__name__}")
    scaled = (x[..., None] - conditional.means) * (-conditional.log_stds).exp()
    level: Tensor = (conditional.log_weights.exp() * torch.special.ndtr(scaled)).sum(-1)
    return level
