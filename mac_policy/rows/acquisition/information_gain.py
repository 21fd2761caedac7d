"""Active information acquisition: which variable to acquire next, to learn most about a target.

The reward of x_i is the mutual information I(x_target; x_i | x_given) (SFARM, Eq. 15), estimated with samples from the
model's conditionals: x_i ~ p(. | x_given), then x_target ~ p(. | x_i, x_given), and the mean of

    log p(x_target | x_i, x_given) - log p(x_target | x_given).

For one target the expectation is the mean over x_i of KL(p(x_target | x_i, x_given) || p(x_target | x_given)). It is
unbiased and never negative, even if the conditionals of the model are not those of one joint distribution. The same
holds for several targets along a fixed path. Along random paths, the sample and the two densities of several targets
use a path each, and the expectation is never negative only if the conditionals agree. An estimate from few samples may
be negative.

The densities of a model with a latent vector are estimates themselves; `latent` has the reward for such models.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from mac_policy.common.checks import check_count
from mac_policy.core.checks import check_disjoint, check_mask, check_values
from mac_policy.rows.model import RowModel

Reward: TypeAlias = Callable[..., Tensor]
"""(model, x, *, given, target, generator) to the reward of every candidate (B, N), -inf for other variables."""


@torch.no_grad()
def information_gain(
    model: RowModel,
    x: Tensor,
    *,
    given: Tensor,
    target: Tensor,
    candidates: Tensor | None = None,
    num_samples: int = 256,
    rows_per_pass: int = 16384,
    generator: torch.Generator | None = None,
) -> Tensor:
    """I(x_target; x_i | x_given) in nats for every candidate i of every row, (B, N); -inf where i is no candidate.

    x: values (B, N); only the given ones are read. given, target, candidates: bool (B, N), or (N,) for all rows; by
    default all variables that are neither given nor target are candidates. All pairs of a row and a candidate share
    passes of `rows_per_pass` samples.

    >>> import torch
    >>> from mac_policy.rows.acquisition.information_gain import information_gain
    >>> class Coins:  # x2 tells what x0 is, x1 does not
    ...     num_variables = 3
    ...     def sample(self, x, *, given, num_samples=1, steps=None, generator=None):
    ...         x, given = x.repeat(num_samples, 1), given.repeat(num_samples, 1)
    ...         drawn = torch.where(given, x, torch.randint(2, x.shape, generator=generator).float())
    ...         drawn[:, 0] = torch.where(given[:, 2], x[:, 2], drawn[:, 0])
    ...         return drawn if num_samples == 1 else drawn.view(num_samples, -1, 3)
    ...     def log_prob(self, x, *, query, given, generator=None):
    ...         return {"model": torch.where(given[:, 2], 1.0, 0.5).log()}
    >>> target = torch.tensor([True, False, False])
    >>> information_gain(Coins(), torch.zeros(1, 3), given=~target & False, target=target)
    tensor([[  -inf, 0.0000, 0.6931]])
    """
    num_samples, rows_per_pass = check_count("num_samples", num_samples), check_count("rows_per_pass", rows_per_pass)
    given, target, candidates = check_question(model, x, given=given, target=target, candidates=candidates)
    x = torch.where(given, x, torch.zeros_like(x))
    # Every variable is sampled independently, in one pass of an any-order model.
    drawn = model.sample(x, given=given, num_samples=num_samples, steps=1, generator=generator)
    drawn = drawn.view(num_samples, *x.shape)  # (S, B, N)
    gains = drawn.new_full(x.shape, -torch.inf)
    row, variable = candidates.nonzero(as_tuple=True)  # (P,) pairs of a row and a candidate
    portion = max(1, rows_per_pass // num_samples)
    for rows, variables in zip(row.split(portion), variable.split(portion), strict=True):
        acquired = torch.zeros_like(given[rows]).scatter(1, variables[:, None], True)  # (P, N)
        before, after, query = given[rows], given[rows] | acquired, target[rows]
        answers = _answered(model, drawn[:, rows], after, query, generator)
        more, less = (_log_prob(model, answers, query, known, generator).mean(0) for known in (after, before))
        gains[rows, variables] = (more - less).to(gains.dtype)
    return gains


def _answered(
    model: RowModel, drawn: Tensor, given: Tensor, target: Tensor, generator: torch.Generator | None
) -> Tensor:
    """Samples (S, P, N) whose target is resampled from p(x_target | x_given); given: (P, N)."""
    count = len(drawn)
    together = None if bool((target.sum(1) > 1).any()) else 1  # several targets are sampled along their path
    known = torch.where(given, drawn, torch.zeros_like(drawn)).flatten(0, 1)
    return model.sample(known, given=given.repeat(count, 1), steps=together, generator=generator).view_as(drawn)


def _log_prob(model: RowModel, x: Tensor, query: Tensor, given: Tensor, generator: torch.Generator | None) -> Tensor:
    """log p(x_query | x_given) (S, P) of samples (S, P, N) under masks (P, N)."""
    count, rows, _ = x.shape
    found = model.log_prob(
        x.flatten(0, 1), query=query.repeat(count, 1), given=given.repeat(count, 1), generator=generator
    )
    return found["model"].view(count, rows)


@torch.no_grad()
def greedy_order(
    model: RowModel,
    x: Tensor,
    target: Tensor,
    *,
    shared: bool = False,
    reward: Reward = information_gain,
    generator: torch.Generator | None = None,
) -> Tensor:
    """The order in which variables are acquired if the most informative one always comes next, (B, N - targets).

    A value of a row is read only after its variable has been acquired. shared: one order for all rows, by their mean
    reward. target: bool (N,), the same for all rows. reward: such as `partial(information_gain, num_samples=9)`.
    """
    target = check_mask("target", target, 1, model.num_variables)[0]
    given = torch.zeros_like(x, dtype=torch.bool)
    chosen = []
    for _ in range(int((~target).sum())):
        gains = reward(model, x, given=given, target=target, generator=generator)
        gains = gains.mean(0).expand_as(gains) if shared else gains
        chosen.append(gains.argmax(1))
        given = given.scatter(1, chosen[-1][:, None], True)
    return torch.stack(chosen, 1) if chosen else torch.zeros(len(x), 0, dtype=torch.long)


def random_order(rows: int, target: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """An independent random order of the variables that are not targets, for each row, (rows, N - targets).

    >>> import torch
    >>> from mac_policy.rows.acquisition.information_gain import random_order
    >>> random_order(2, torch.tensor([False, False, True])).sort().values
    tensor([[0, 1],
            [0, 1]])
    """
    features = (~target).nonzero()[:, 0]
    return features[torch.rand(rows, len(features), generator=generator).argsort(1)]


def known_after(order: Tensor, count: int, num_variables: int) -> Tensor:
    """The known variables after the first `count` of each row's order (B, D): (B, N) bool."""
    nothing = torch.zeros(len(order), num_variables, dtype=torch.bool, device=order.device)
    return nothing.scatter(1, order[:, :count], True)


def check_question(
    model: RowModel, x: Tensor, *, given: Tensor, target: Tensor, candidates: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The masks, expanded to the rows of x (B, N); ValueError if they overlap or a row has no target."""
    check_values(x, model.num_variables)
    given = check_mask("given", given, len(x), model.num_variables)
    target = check_mask("target", target, len(x), model.num_variables)
    check_disjoint(target=target, given=given)
    if not bool(target.any(1).all()):
        raise ValueError(f"target of row {int((~target.any(1)).nonzero()[0])} is empty: it must name a variable")
    free = ~given & ~target
    if candidates is None:
        return given, target, free
    candidates = check_mask("candidates", candidates, len(x), model.num_variables)
    check_disjoint(**{"candidates": candidates, "given or target": ~free})
    return given, target, candidates
