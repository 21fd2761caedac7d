"""Imputations and likelihoods of a table by a trained model: means, medians, modes, samples, log densities."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from mac_policy.core.heads import Conditional
from mac_policy.core.heads.continuous import MixtureConditional
from mac_policy.core.heads.discrete import CategoricalConditional
from mac_policy.core.heads.mixed import MixedConditional
from mac_policy.rows.imputer import walks
from mac_policy.rows.imputer.members import Ensemble
from mac_policy.rows.imputer.walks import drawn
from mac_policy.rows.model import AnyOrderRows
from mac_policy.training.streams import stream

FILLS = ("mean", "median", "mode", "sample")
ROWS = 2048  # rows that share a pass
HALVINGS = 60
PATHS = 4  # random orders that the likelihood of a model of random orders is averaged over
FEW_VARIABLES = 40  # a model of more averages the likelihood over fewer orders


@torch.no_grad()
def filled(model: AnyOrderRows | None, x: Tensor, fill: str, generator: torch.Generator | None = None) -> Tensor:
    """x (R, N) with every NaN replaced by a summary of p(x_i | x_observed), or a sample of all missing values of a row.

    The model is None if x has no columns. A category has no mean or median: its most probable class is taken.
    """
    return torch.cat([_filled(model, part, fill, generator) for part in x.split(ROWS)])


def _filled(model: AnyOrderRows | None, x: Tensor, fill: str, generator: torch.Generator | None) -> Tensor:
    observed = ~x.isnan()
    if model is None or bool(observed.all()):
        return x
    if fill == "sample":
        ranks = model.factorization.ranks(query=~observed, given=observed, generator=generator)
        return drawn(_ensemble(model), torch.where(observed, x, 0.0), ranks, generator)
    out, rows = x.clone(), (~observed).any(1)
    part, seen = x[rows], observed[rows]
    answers = summary(model.model.conditionals(part, evidence=seen), fill)
    out[rows] = torch.where(seen, part, answers.to(x.dtype))
    return out


def summary(conditional: Conditional, fill: str) -> Tensor:
    """(...) the mean, median or mode of numbers, the mode of categories."""
    if isinstance(conditional, MixedConditional):
        out = torch.zeros(conditional.batch_shape, dtype=torch.double)
        for where, part in conditional.parts:
            out[where] = summary(part, fill).double()
        return out
    if isinstance(conditional, CategoricalConditional):
        return conditional.mode
    if fill == "median" and isinstance(conditional, MixtureConditional):
        return median(conditional)
    found: Tensor = getattr(conditional, fill)
    return found


@torch.no_grad()
def class_probabilities(model: AnyOrderRows, x: Tensor) -> dict[int, Tensor]:
    """p(class | observed values), (R, classes) for each variable that is a category; an observed class has 1."""
    observed = ~x.isnan()
    found: dict[int, list[Tensor]] = {}
    for part, seen in zip(x.split(ROWS), observed.split(ROWS), strict=True):
        conditional: Any = model.model.conditionals(part, evidence=seen)
        for variable in range(x.shape[1]):
            probabilities = _probabilities(conditional, variable)
            if probabilities is not None:
                known = torch.nn.functional.one_hot(part[:, variable].nan_to_num(0.0).long(), probabilities.shape[-1])
                found.setdefault(variable, []).append(torch.where(seen[:, variable, None], known, probabilities))
    return {variable: torch.cat(parts) for variable, parts in found.items()}


def _probabilities(conditional: Any, variable: int) -> Tensor | None:
    """(B, classes), or None for a number."""
    if isinstance(conditional, CategoricalConditional):
        return conditional.log_probs[:, variable].exp()
    if isinstance(conditional, MixedConditional):
        for where, part in conditional.parts:
            if isinstance(part, CategoricalConditional) and bool(where[0, variable]):
                column = int(where[0, :variable].sum())
                return part.log_probs.view(len(where), -1, part.log_probs.shape[-1])[:, column].exp()
    return None


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
    law, n, generator = model.factorization, model.num_variables, stream(seed, "paths")
    if law.deterministic:
        everything = torch.ones(1, n, dtype=torch.bool)
        orders = [law.ranks(query=everything, given=~everything)[0].argsort()]
    else:
        orders = [torch.randperm(n, generator=generator) for _ in range(PATHS if n <= FEW_VARIABLES else 1)]
    return torch.cat([_log_density(model, part, orders) for part in x.split(ROWS)])


def _log_density(model: AnyOrderRows, x: Tensor, orders: list[Tensor]) -> Tensor:
    observed = ~x.isnan()
    values = torch.where(observed, x, 0)
    found = [walks.log_density(_ensemble(model), values, observed, order) for order in orders]
    return torch.stack(found).logsumexp(0) - math.log(len(found))


def _ensemble(model: AnyOrderRows) -> Ensemble:
    network = model.model.network
    if not isinstance(network, Ensemble):
        raise TypeError(f"the network is a {type(network).__name__}")
    return network
