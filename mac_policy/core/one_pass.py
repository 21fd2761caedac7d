"""Asking a path network: a whole path in one pass, or value after value where each is chosen on the way."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mac_policy.core.factorization import Factorization
from mac_policy.core.heads import Conditional, Head
from mac_policy.core.heads.head import at_least_float32
from mac_policy.core.networks import PathNetwork
from mac_policy.core.question import Question
from mac_policy.core.ranks import with_order_of_given

Choose = Callable[[Conditional, Tensor, Tensor], Tensor]
"""Conditionals of (A,) variables, their rows (A,) and their indices (A,) -> the values (A,)."""


def log_prob(
    network: PathNetwork,
    head: Head,
    question: Question,
    ranks: Tensor,
    rows_per_pass: int,
    generator: torch.Generator | None = None,
) -> Tensor:
    """(B,): the sum of all conditionals along each path. Rows of like length share passes; empty queries need none."""
    features = head.features(question.x)
    length = (ranks < ranks.shape[1]).sum(1).masked_fill(~question.query.any(1), 0)
    by_length = length.argsort(descending=True, stable=True)[: int((length > 0).sum())]
    like = at_least_float32(next(network.parameters()))
    total = question.x.new_zeros(len(question.x), dtype=like.dtype)
    for rows in by_length.split(rows_per_pass) if len(by_length) else ():
        part = question.rows(rows)
        params = network(features[rows], ranks[rows], part.encoded, part.mode)
        item, variable = part.query.nonzero(as_tuple=True)
        conditional = head(params[item, variable], variables=variable, generator=generator)
        terms = conditional.log_prob(part.x[item, variable])
        total = total.to(terms.dtype).index_add(0, rows[item], terms)
    return total


def fill(
    network: PathNetwork,
    head: Head,
    question: Question,
    ranks: Tensor,
    choose: Choose,
    *,
    cache: bool = True,
    copies: int = 1,
    generator: torch.Generator | None = None,
) -> Tensor:
    """x (B, N) with what is asked chosen along each path.

    `copies`: the rows are that many copies of the same ones, which are read once where the paths agree. Without the
    `cache` every step reads its whole path anew.
    """
    asking = ((ranks >= 0) & (ranks < ranks.shape[1])).any(1)
    if not bool(asking.all()):
        return _fill_some(network, head, question, ranks, choose, asking, cache, copies, generator)
    steps = Steps(ranks)
    walk = (
        _Cached(network, head, question, ranks, steps, copies)
        if cache
        else _Anew(network, head, question, ranks, steps)
    )
    x = question.x[steps.rows]
    for step in range(steps.number):
        targets = steps.targets(step)
        item, column = (targets < ranks.shape[1]).nonzero(as_tuple=True)
        variable, rows = targets[item, column], steps.rows[item]
        conditional = head(walk.ask(x, step, targets)[item, column], variables=variable, generator=generator)
        x[item, variable] = choose(conditional, rows, variable).to(x.dtype)
        walk.tell(x, targets)
    return torch.empty_like(x).index_copy(0, steps.rows, x)


def _fill_some(
    network: PathNetwork,
    head: Head,
    question: Question,
    ranks: Tensor,
    choose: Choose,
    asking: Tensor,
    cache: bool,
    copies: int,
    generator: torch.Generator | None,
) -> Tensor:
    """`fill` of the rows that are `asking` (B,) alone; copies of a row ask alike."""
    filled, rows = question.x.clone(), asking.nonzero()[:, 0]
    if len(rows):

        def choose_for(conditional: Conditional, among: Tensor, variables: Tensor) -> Tensor:
            return choose(conditional, rows[among], variables)

        some = question.rows(rows)
        filled[rows] = fill(
            network, head, some, ranks[rows], choose_for, cache=cache, copies=copies, generator=generator
        )
    return filled


def all_at_once(
    evidence: Tensor, factorization: Factorization | None = None, generator: torch.Generator | None = None
) -> Tensor:
    """Ranks (B, N) that ask for all that is unseen together, the evidence in its canonical order."""
    if factorization is None:
        order = evidence.long().cumsum(1) - 1
    else:
        order = factorization.ranks(query=evidence, given=torch.zeros_like(evidence), generator=generator).to(
            evidence.device
        )
    return with_order_of_given(torch.zeros_like(order), evidence, order)


class Steps:
    """What is asked at each step, of rows sorted so that those with the most steps come first."""

    def __init__(self, ranks: Tensor) -> None:
        none = ranks.shape[1]
        asked = (ranks >= 0) & (ranks < none)
        length = ranks.masked_fill(~asked, -1).amax(1) + 1
        self.number = int(length.max()) if len(length) else 0
        self.rows = length.argsort(descending=True, stable=True)  # (B,) the row that stands at each place
        ranks, asked, length = ranks[self.rows], asked[self.rows], length[self.rows]
        self._variable = torch.cat([ranks.argsort(dim=1, stable=True), torch.full_like(ranks[:, :1], none)], 1)
        self._count = ranks.new_zeros(len(ranks), self.number + 1)
        self._count.scatter_add_(1, ranks.clamp(0, self.number), asked.long())
        self._start = (ranks < 0).sum(1, keepdim=True) + self._count.cumsum(1) - self._count
        self._active = (torch.arange(self.number, device=ranks.device)[:, None] < length).sum(1).tolist()
        self._widest = self._count[:, : self.number].amax(0).tolist() if len(ranks) else []
        self.columns = sum(self._widest)

    def targets(self, step: int) -> Tensor:
        """(b, m) long: what each of the first b rows is asked, N for nothing more."""
        active = self._active[step]
        place = torch.arange(self._widest[step], device=self._start.device)
        asked = place < self._count[:active, step, None]
        last = self._variable.shape[1] - 1
        return self._variable[:active].gather(1, (self._start[:active, step, None] + place).masked_fill(~asked, last))


class _Cached:
    """Reads every value once."""

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

    def ask(self, x: Tensor, step: int, targets: Tensor) -> Tensor:
        return self.network.ask(self.state, targets)

    def tell(self, x: Tensor, targets: Tensor) -> None:
        none = x.shape[1]
        values = x[: len(targets)].gather(1, targets.clamp(max=none - 1))
        features = self.head.features(values)
        self.network.tell(self.state, targets, features)


class _Anew:
    """Reads the path up to each step from its beginning."""

    def __init__(self, network: PathNetwork, head: Head, question: Question, ranks: Tensor, steps: Steps) -> None:
        self.network, self.head = network, head
        self.question, self.ranks = question.rows(steps.rows), ranks[steps.rows]

    def ask(self, x: Tensor, step: int, targets: Tensor) -> Tensor:
        rows, none = len(targets), x.shape[1]
        part = self.question.rows(torch.arange(rows, device=x.device))
        so_far = torch.where(self.ranks[:rows] <= step, self.ranks[:rows], none)
        params = self.network(self.head.features(x[:rows]), so_far, part.encoded, part.mode)
        of_targets: Tensor = params[torch.arange(rows, device=x.device)[:, None], targets.clamp(max=none - 1)]
        return of_targets

    def tell(self, x: Tensor, targets: Tensor) -> None:
        pass
