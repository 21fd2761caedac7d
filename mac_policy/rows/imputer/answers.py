"""Imputations and likelihoods of a table by a trained model: means, medians, modes, samples, log densities."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from mac_policy.core.factorization import Factorization, UniformOrder
from mac_policy.core.heads.continuous import MixtureConditional
from mac_policy.core.question import ranks_in_order
from mac_policy.rows.model import AnyOrderRows
from mac_policy.training.streams import stream

FILLS = ("mean", "median", "mode", "sample")
ROWS = 2048  # rows that share a pass
HALVINGS = 60
PATHS = 4  # random orders that the likelihood of a model of random orders is averaged over


class FixedOrder(UniformOrder):
    """Paths of a model of random orders along one order, the same for all rows."""

    deterministic = True

    def __init__(self, order: Tensor) -> None:
        super().__init__(len(order))
        self.order = order

    def ranks(self, *, query: Tensor, given: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return ranks_in_order(self.order, query=query, given=given)


@torch.no_grad()
def filled(model: AnyOrderRows | None, x: Tensor, fill: str, generator: torch.Generator | None = None) -> Tensor:
    """x (R, N) with every NaN replaced by a summary of p(x_i | x_observed), or a sample of all missing values of a row.

    The model is None if x has no columns.
    """
    return torch.cat([_filled(model, part, fill, generator) for part in x.split(ROWS)])


def _filled(model: AnyOrderRows | None, x: Tensor, fill: str, generator: torch.Generator | None) -> Tensor:
    observed = ~x.isnan()
    if model is None or bool(observed.all()):
        return x
    if fill == "sample":
        return model.sample(x, given=observed, generator=generator)
    conditional: Any = model.model.conditionals(x, evidence=observed)
    return torch.where(observed, x, median(conditional) if fill == "median" else getattr(conditional, fill))


def median(mixture: MixtureConditional) -> Tensor:
    """The median of every mixture of Gaussians, by bisection.

    >>> import torch
    >>> from mac_policy.core.heads.continuous import MixtureConditional
    >>> from mac_policy.rows.imputer.answers import median
    >>> median(MixtureConditional(torch.zeros(1, 2), torch.tensor([[1.0, 3.0]]), torch.zeros(1, 2)))
    tensor([2.])
    """
    low, high = mixture.means.amin(-1), mixture.means.amax(-1)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        scaled = (middle[..., None] - mixture.means) * (-mixture.log_stds).exp()
        below = (mixture.log_weights.exp() * torch.special.ndtr(scaled)).sum(-1) < 0.5
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return (low + high) / 2


@torch.no_grad()
def log_density(model: AnyOrderRows, x: Tensor, seed: int) -> Tensor:
    """log p(x_observed) of every row (R,); 0 for a row without observed values.

    All rows share the paths: the canonical path, or several random orders whose densities are averaged.
    """
    paths: list[Factorization] = [model.factorization]
    if not model.factorization.deterministic:
        n, generator = model.num_variables, stream(seed, "paths")
        paths = [FixedOrder(torch.randperm(n, generator=generator)) for _ in range(PATHS)]
    return torch.cat([_log_density(model, part, paths) for part in x.split(ROWS)])


def _log_density(model: AnyOrderRows, x: Tensor, paths: list[Factorization]) -> Tensor:
    observed = ~x.isnan()
    values = torch.where(observed, x, 0)
    found = [model.model.log_prob(values, query=observed, factorization=path) for path in paths]
    return torch.stack(found).logsumexp(0) - math.log(len(found))
