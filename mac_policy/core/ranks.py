"""Ranks: the step at which each variable of a row is answered, as (n, N) long tensors.

Queried variables have ranks 0, 1, ..., given variables -1 (or -g, ..., -1 where their order matters), all others N.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mac_policy.core.checks import check_disjoint, check_mask
from mac_policy.core.orders import positions
from mac_policy.core.training_draws import uniform_over

GIVEN = -1  # the rank of a variable that is given


def next_of(ranks: Tensor, now: Tensor, deterministic: bool) -> Tensor:
    """The law of the variable that step `now` (n,) answers: the path's own, or uniform over the variables left."""
    return (ranks == now[:, None]).float() if deterministic else uniform_over(still_asked(ranks, now))


def still_asked(ranks: Tensor, now: Tensor) -> Tensor:
    """Queried variables that are not answered before step `now` (n,). (n, N) bool"""
    return (ranks >= now[:, None]) & (ranks < ranks.shape[1])


def ranks_in_order(order: Tensor, *, query: Tensor, given: Tensor) -> Tensor:
    """Ranks along one canonical order for all rows."""
    by_place = (query[:, order].cumsum(1) - 1)[:, positions(order)]
    return mark_ranks(by_place, query=query, given=given)


def ranks_by_key(keys: Tensor, *, query: Tensor, given: Tensor) -> Tensor:
    """Ranks in increasing order of each row's keys (n, N)."""
    by_key = keys.masked_fill(~query, torch.inf).argsort(1).argsort(1)
    return mark_ranks(by_key, query=query, given=given)


def mark_ranks(ranks: Tensor, *, query: Tensor, given: Tensor) -> Tensor:
    """Ranks of the queried, -1 for the given, N for the others."""
    return torch.where(query, ranks, torch.where(given, GIVEN, query.shape[1]))


def check_query(num_variables: int, *, query: Tensor, given: Tensor) -> tuple[Tensor, Tensor]:
    """Return both masks on the CPU when they have equal shapes (n, num_variables) and no variable in common."""
    query = check_mask("query", query, None, num_variables)
    given = check_mask("given", given, len(query), num_variables)
    check_disjoint(query=query, given=given)
    return query.cpu(), given.cpu()


def with_order_of_given(ranks: Tensor, given: Tensor, order: Tensor) -> Tensor:
    """Ranks whose given variables are -g, ..., -1 in the order of their own ranks `order` 0, ..., g-1. (n, N)"""
    return torch.where(given, order - given.sum(1, keepdim=True), ranks)
