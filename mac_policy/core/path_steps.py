"""The steps of whole paths for a path network: targets of every step, and reading with and without a cache."""

from __future__ import annotations

import torch
from torch import Tensor

from mac_policy.core.heads import Head
from mac_policy.core.networks import PathNetwork
from mac_policy.core.question import Question


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


class CachedPath:
    """Reads every value once and keeps keys and values."""

    def __init__(
        self, network: PathNetwork, head: Head, question: Question, ranks: Tensor, steps: Steps, copies: int
    ) -> None:
        self.network, self.head = network, head
        distinct = len(ranks) // copies
        given = ranks.clamp(max=0) if network.given_in_order else ranks < 0
        if not torch.equal(given, given[:distinct].repeat(copies, 1)):
            distinct = len(ranks)
        part = question.rows(torch.arange(distinct, device=ranks.device))
        self.state = network.begin(head.features(part.x), ranks[:distinct], part.encoded, part.mode, steps.columns)
        self.state.select(steps.rows % max(distinct, 1))

    def ask(self, x: Tensor, rows: Tensor, step: int, targets: Tensor) -> Tensor:
        return self.network.ask(self.state, targets)

    def tell(self, x: Tensor, rows: Tensor, targets: Tensor) -> None:
        values = x[rows[:, None], targets.clamp(max=x.shape[1] - 1)]
        self.network.tell(self.state, targets, self.head.features(values))


class RereadPath:
    """Reads the path up to each step from its beginning."""

    def __init__(
        self, network: PathNetwork, head: Head, question: Question, ranks: Tensor, steps: Steps, copies: int
    ) -> None:
        self.network, self.head = network, head
        self.question, self.ranks = question.rows(steps.rows), ranks[steps.rows]

    def ask(self, x: Tensor, rows: Tensor, step: int, targets: Tensor) -> Tensor:
        place, none = torch.arange(len(targets), device=x.device), x.shape[1]
        part, ranks = self.question.rows(place), self.ranks[: len(targets)]
        so_far = torch.where(ranks <= step, ranks, none)
        params = self.network(self.head.features(x[rows]), so_far, part.encoded, part.mode)
        of_targets: Tensor = params[place[:, None], targets.clamp(max=none - 1)]
        return of_targets

    def tell(self, x: Tensor, rows: Tensor, targets: Tensor) -> None:
        pass
