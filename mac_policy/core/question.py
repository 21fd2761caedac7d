"""A question to an any-order model, and the ranks and steps in which its variables are answered.

The rank of a variable is the step at which it is answered: queried variables have ranks 0, 1, ..., given variables -1
(or -g, ..., -1 where their order matters), all others N. The ranks of rows are (n, N) long tensors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from mac_policy.core.checks import check_disjoint, check_mask
from mac_policy.core.frame import Frame
from mac_policy.core.orders import positions

GIVEN = -1  # the rank of a variable that is given


@dataclass(frozen=True)
class Question:
    """Which variables of each row are queried, which are given, and their values; x is zero where it is unknown."""

    x: Tensor  # (B, N)
    query: Tensor  # (B, N)
    given: Tensor  # (B, N)
    encoded: Tensor | None  # (B, H) the context, read once
    mode: Tensor | None  # (B,)
    frame: Frame | None = None

    def rows(self, rows: Tensor) -> Question:
        encoded = None if self.encoded is None else self.encoded[rows]
        mode = None if self.mode is None else self.mode[rows]
        frame = None if self.frame is None else self.frame.rows(rows)
        return Question(self.x[rows], self.query[rows], self.given[rows], encoded, mode, frame)

    def repeat(self, times: int) -> Question:
        return self if times == 1 else self.rows(torch.arange(len(self.x), device=self.x.device).repeat(times))


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


def portions(ranks: Tensor, query: Tensor, rows_per_pass: int) -> Iterator[tuple[Tensor, Tensor]]:
    """All (row, step) pairs that have something to answer, in portions of at most rows_per_pass."""
    num_steps = ranks.masked_fill(~query, -1).amax(1) + 1  # (B,): ranks have no gaps
    steps = torch.arange(int(num_steps.max()) if len(num_steps) else 0, device=ranks.device)
    rows, step = (steps < num_steps[:, None]).nonzero(as_tuple=True)
    return zip(rows.split(rows_per_pass), step.split(rows_per_pass), strict=True) if len(rows) else iter(())


def in_fewer_steps(ranks: Tensor, query: Tensor, steps: int) -> Tensor:
    """Ranks 0..q-1 of each row spread evenly over at most `steps` steps."""
    num_steps = ranks.masked_fill(~query, -1).amax(1, keepdim=True) + 1
    merged = ranks * steps // num_steps.clamp(min=1)
    return torch.where(query & (num_steps > steps), merged, ranks)


class Steps:
    """The targets of each step, of rows sorted so that those with the most steps come first."""

    def __init__(self, ranks: Tensor) -> None:
        none = ranks.shape[1]
        asked = (ranks >= 0) & (ranks < none)
        length = ranks.masked_fill(~asked, -1).amax(1) + 1
        self.number = int(length.max()) if len(length) else 0
        self.rows = length.argsort(descending=True, stable=True)  # (B,) the row at each place
        ranks, asked, length = ranks[self.rows], asked[self.rows], length[self.rows]
        self._variable = torch.cat([ranks.argsort(dim=1, stable=True), torch.full_like(ranks[:, :1], none)], 1)
        self._count = ranks.new_zeros(len(ranks), self.number + 1)
        self._count.scatter_add_(1, ranks.clamp(0, self.number), asked.long())
        self._start = (ranks < 0).sum(1, keepdim=True) + self._count.cumsum(1) - self._count
        self._active = (torch.arange(self.number, device=ranks.device)[:, None] < length).sum(1).tolist()
        self._widest = self._count[:, : self.number].amax(0).tolist() if len(ranks) else []
        self.columns = sum(self._widest)

    def targets(self, step: int) -> Tensor:
        """(b, m) long: the targets of each of the first b rows, padded with N."""
        active = self._active[step]
        place = torch.arange(self._widest[step], device=self._start.device)
        asked = place < self._count[:active, step, None]
        last = self._variable.shape[1] - 1
        return self._variable[:active].gather(1, (self._start[:active, step, None] + place).masked_fill(~asked, last))
