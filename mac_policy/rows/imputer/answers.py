"""What a trained model says of a table's holes: means, medians, modes, draws; and how likely what is seen is."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mac_policy.core.factorization import Factorization, UniformOrder
from mac_policy.core.heads.continuous import MixtureConditional
from mac_policy.core.question import check_query, ranks_in_order
from mac_policy.rows.model import AnyOrderRows
from mac_policy.training.streams import stream

FILLS = ("mean", "median", "mode", "sample")
ROWS = 2048  # rows that are answered together
HALVINGS = 60
PATHS = 4  # fixed random orders that a likelihood is averaged over, where orders are random


class FixedOrder(UniformOrder):
    """A model of random orders, asked along one order that is the same for all rows."""

    deterministic = True

    def __init__(self, order: Tensor) -> None:
        super().__init__(len(order))
        self.order = order

    def ranks(self, *, query: Tensor, given: Tensor, generator: torch.Generator | None = None) -> Tensor:
        query, given = check_query(self.num_variables, query=query, given=given)
        return ranks_in_order(self.order, query=query, given=given)


@torch.no_grad()
def filled(model: AnyOrderRows, x: Tensor, fill: str, generator: torch.Generator | None = None) -> Tensor:
    """x (R, N) with every NaN replaced by a summary of p(x_i | all that is seen in its row), or a draw of the row."""
    parts = [_filled(model, part, fill, generator) for part in x.split(ROWS)]
    return torch.cat(parts) if parts else x


def _filled(model: AnyOrderRows, x: Tensor, fill: str, generator: torch.Generator | None) -> Tensor:
    seen = ~x.isnan()
    if bool(seen.all()):
        return x
    if fill == "sample":
        return model.sample(x, given=seen, generator=generator)
    conditional = model.model.conditionals(x, evidence=seen)
    if not isinstance(conditional, MixtureConditional):
        raise TypeError(f"the head gives {type(conditional).__name__}, not a mixture of Gaussians")
    summary = {"mean": lambda c: c.mean, "mode": lambda c: c.mode, "median": median}[fill](conditional)
    return torch.where(seen, x, summary)


def median(mixture: MixtureConditional) -> Tensor:
    """The median of every mixture of Gaussians, by halving the interval that must hold it.

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
    """log p(all that is seen) of every row (R,); 0 where nothing is.

    Along paths that are the same for every row: the canonical one, or the mean of the densities along a few.
    """
    paths = _paths(model, seed)
    return torch.cat([_log_density(model, part, paths) for part in x.split(ROWS)])


def _log_density(model: AnyOrderRows, x: Tensor, paths: list[Factorization]) -> Tensor:
    seen = ~x.isnan()
    values = torch.where(seen, x, 0)
    found = [model.model.log_prob(values, query=seen, factorization=path) for path in paths]
    return torch.stack(found).logsumexp(0) - math.log(len(found))


def _paths(model: AnyOrderRows, seed: int) -> list[Factorization]:
    if model.factorization.deterministic:
        return [model.factorization]
    n, generator = model.num_variables, stream(seed, "paths")
    return [FixedOrder(torch.randperm(n, generator=generator)) for _ in range(PATHS)]
