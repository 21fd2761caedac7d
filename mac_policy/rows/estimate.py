"""The log-likelihood of a long path from some of its steps.

A path of T steps has log p = sum_s l_s. Cut [0, T) into K equal strata and take one uniform point of each: the step
below it is chosen K/T times on average, so (T/K) sum_k l_{s_k} is an unbiased estimate, with a small variance where
neighbouring steps are alike. An image of 3,072 variables costs K network passes instead of 3,072.

Along a random path, other variables could have come next after the same past. One network pass gives the conditionals
of all of them, so l_s is their mean, weighed by the probability to come next: also without bias, and with a far
smaller variance than the one variable that came next.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mac_policy.common.checks import check_count
from mac_policy.core import AnyOrderModel, Factorization


def chosen_steps(lengths: Tensor, steps: int, generator: torch.Generator | None) -> tuple[Tensor, Tensor, Tensor]:
    """(row, step, weight) of the chosen steps: all of a path of up to `steps` steps, otherwise one of each stratum."""
    u = torch.rand((len(lengths), steps), generator=generator, dtype=torch.float64)
    k = torch.arange(steps)
    length = lengths[:, None]
    drawn = ((k + u) * length / steps).long().minimum(length - 1)
    short = length <= steps
    step = torch.where(short, k, drawn)
    weight = torch.where(short, 1.0, length / steps)
    row, column = (~short | (k < length)).nonzero(as_tuple=True)
    return row, step[row, column], weight.expand_as(u)[row, column]


def estimated_log_prob(
    model: AnyOrderModel,
    x: Tensor,
    *,
    query: Tensor,
    given: Tensor,
    factorization: Factorization,
    steps: int,
    generator: torch.Generator | None = None,
    step_generator: torch.Generator | None = None,
) -> Tensor:
    """An unbiased estimate of log p(x_query | x_given) (B,) from at most `steps` steps of each row's path.

    A path of at most `steps` steps is answered exactly; for a longer one the mean over random paths is estimated.
    `generator` draws the paths, `step_generator` the steps: models that share it are compared at the same steps.
    """
    check_count("steps", steps)
    ranks = factorization.ranks(query=query, given=given, generator=generator)
    lengths = ranks.masked_fill(~query.cpu(), -1).amax(1) + 1
    rows, step, weight = chosen_steps(lengths, steps, step_generator)
    modes = factorization.path_mode(len(x))
    features = model.head.features(torch.where(query | given, x, torch.zeros_like(x)))
    total = torch.zeros(len(x), dtype=torch.float64, device=x.device)
    portions = zip(*(part.split(model.rows_per_pass) for part in (rows, step, weight)), strict=True)
    for row, now, share in portions:
        rank = ranks[row]
        whole = (lengths[row] <= steps)[:, None]
        law = torch.where(whole, (rank == now[:, None]).float(), factorization.next_law(rank, now)).to(x.device)
        evidence, row = (rank < now[:, None]).to(x.device), row.to(x.device)
        mode = None if modes is None else modes.to(x.device)[row]
        params = model.head.after(model.network(features[row], evidence, None, mode), x[row], law > 0)
        item, variable = law.nonzero(as_tuple=True)
        conditional = model.head(params[item, variable], variables=variable, generator=generator)
        terms = conditional.log_prob(x[row[item], variable]).double() * law[item, variable]
        total.index_add_(0, row[item], terms * share.to(x.device)[item])
    return total
