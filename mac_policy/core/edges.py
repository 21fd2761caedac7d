"""Which edges training meets: p(x_i | x_e) is an edge (e, i), a path is a sequence of edges.

`MaskTuned` asks a support for each kind of its queries. A support knows the edges from the law of the masks: from the
exact table for N <= 16, in closed form for masks that are uniform given their cardinality, mask by mask for a list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from mac_policy.core.masks import ExchangeableMasks, FixedMasks, MaskDistribution, mask_codes
from mac_policy.core.orders import positions

ENTRIES = 2_000_000  # of (edges, N) tensors that are expanded at once


@runtime_checkable
class KnowsEdges(Protocol):
    """A factorisation that knows which edges training meets. `whole_paths`: of a network that is trained on paths."""

    def meets_all(self, whole_paths: bool) -> bool:
        """Whether training certainly meets every edge."""
        ...

    def meets(self, ranks: Tensor, whole_paths: bool) -> Tensor:
        """Whether training meets all edges of each path (n, N), as `Factorization.ranks` gives them. (n,) bool"""
        ...

    def remedy(self, whole_paths: bool) -> str:
        """What to train instead, so that every edge is met."""
        ...


class Support(Protocol):
    """The edges of one kind of queries."""

    every_mask: bool  # whether every evidence but the full one is met
    every_edge: bool

    def edges(self, evidence: Tensor) -> Tensor:
        """(n, N) bool: the variables that are queried next given this evidence (n, N), on some path."""
        ...

    def draws(self, ranks: Tensor) -> Tensor:
        """(n,) bool: paths (n, N) of the factorisation that training certainly draws as a whole."""
        ...


class TabulatedSupport:
    """The edges of an exact table (2^N, N)."""

    def __init__(self, edge_law: Tensor) -> None:
        self._edges = edge_law > 0
        full = 2 ** edge_law.shape[1] - 1
        self.every_mask = bool(self._edges[:full].any(1).all())
        self.every_edge = int(self._edges.sum()) == edge_law.shape[1] * 2 ** (edge_law.shape[1] - 1)

    def edges(self, evidence: Tensor) -> Tensor:
        return self._edges[mask_codes(evidence)]

    def draws(self, ranks: Tensor) -> Tensor:
        return torch.zeros(len(ranks), dtype=torch.bool)


class CardinalitySupport:
    """The edges of masks that are uniform given their cardinality, for any N."""

    def __init__(self, masks: ExchangeableMasks, order: Tensor, query: str, protocol: str, last: bool) -> None:
        self.order, self._marginal, self._random, self._last = order, query == "marginal", protocol == "random", last
        self._sizes = masks.cardinality_law > 0  # (N+1,)
        n = len(order)
        self.every_mask = self.every_edge = False
        if self._random:
            needed = self._sizes[1:] if last else self._sizes[n if self._marginal else 0]
            self.every_mask = self.every_edge = bool(needed.all())
        elif not self._marginal:
            self.every_mask = bool(self._sizes[:n].all())

    def edges(self, evidence: Tensor) -> Tensor:
        met = self._next(evidence[:, self.order])
        return met[:, positions(self.order)]

    def draws(self, ranks: Tensor) -> Tensor:
        n = ranks.shape[1]
        given, unasked = (ranks < 0).sum(1), (ranks == n).sum(1)
        asked = n - given - unasked
        one_by_one = ranks.masked_fill(ranks == n, -1).amax(1) + 1 == asked
        if self._marginal:
            return one_by_one & (given == 0) & self._sizes[asked] & (not self._last)
        return one_by_one & (unasked == 0) & self._sizes[given]

    def _next(self, evidence: Tensor) -> Tensor:
        """As `edges`, by position."""
        n, seen = evidence.shape[1], evidence.sum(1)
        place = torch.arange(n)
        if self._marginal:
            larger = self._smallest_above(seen)  # (n,): the smallest query that is larger than the evidence
            if self._random:
                return ~evidence & (larger <= n)[:, None]
            last = torch.where(evidence, place, -1).amax(1, keepdim=True)
            return (place > last) & (place <= (n - larger + seen)[:, None]) & (larger <= n)[:, None]
        first = (~evidence).long().argmax(1)  # the first position without evidence
        fewest = torch.zeros_like(seen) if self._random else seen - first
        counts = torch.cat([torch.zeros(1, dtype=torch.long), self._sizes.long().cumsum(0)])
        starts = (counts[seen + 1] > counts[fewest]) & (seen < n)  # whether a start mask can lead here
        following = ~evidence if self._random else place == first[:, None]
        return following & starts[:, None]

    def _smallest_above(self, seen: Tensor) -> Tensor:
        """The smallest size of a query above `seen` (n,), or of `seen + 1` alone where last edges are trained."""
        n = len(self._sizes) - 1
        sizes = torch.arange(n + 1)
        if self._last:
            return torch.where(self._sizes[(seen + 1).clamp(max=n)], seen + 1, n + 1)
        allowed = self._sizes & (sizes > seen[:, None])
        return torch.where(allowed, sizes, n + 1).amin(1)


class ListedSupport:
    """The edges of a list of masks, for any N."""

    def __init__(self, masks: FixedMasks, order: Tensor, query: str, protocol: str, last: bool) -> None:
        self.order, self._marginal, self._random, self._last = order, query == "marginal", protocol == "random", last
        self._masks = masks.masks[masks.probabilities > 0][:, order].unique(dim=0)
        self.every_mask = self.every_edge = False

    def edges(self, evidence: Tensor) -> Tensor:
        at = evidence[:, self.order]
        met = torch.zeros_like(at)
        for mask in self._masks:
            met |= self._after(at, mask)
        return met[:, positions(self.order)]

    def draws(self, ranks: Tensor) -> Tensor:
        return torch.zeros(len(ranks), dtype=torch.bool)

    def _after(self, evidence: Tensor, mask: Tensor) -> Tensor:
        """The next variables on the paths of one mask (N,)."""
        if self._marginal:
            left, inside = mask & ~evidence, ~(evidence & ~mask).any(1)
            inside = inside & (left.sum(1) == 1) if self._last else inside
        else:
            left, inside = ~evidence, ~(mask & ~evidence).any(1)
        walked = evidence if self._marginal else evidence & ~mask  # what the path has queried before
        if self._random:
            return left & inside[:, None]
        place = torch.arange(len(mask))
        latest = torch.where(walked, place, -1).amax(1)
        first = torch.where(left, place, len(mask)).amin(1)
        return (place == first[:, None]) & (inside & (first > latest))[:, None] & left


def support_of(masks: MaskDistribution, order: Tensor, query: str, protocol: str, last: bool) -> Support | None:
    """The support of paths through these masks; None where the law does not say which masks it has."""
    if isinstance(masks, ExchangeableMasks):
        return CardinalitySupport(masks, order, query, protocol, last)
    return ListedSupport(masks, order, query, protocol, last) if isinstance(masks, FixedMasks) else None


def edges_of(ranks: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """The edges of paths (n, N) in portions: row (E,), evidence (E, N) and the variables answered given it (E, N)."""
    n = ranks.shape[1]
    steps = ranks.masked_fill(ranks == n, -1).amax(1) + 1
    row, step = (torch.arange(int(steps.max()) if len(steps) else 0) < steps[:, None]).nonzero(as_tuple=True)
    portion = max(1, ENTRIES // n)
    for rows, now in zip(row.split(portion), step.split(portion), strict=True):
        rank = ranks[rows]
        yield rows, rank < now[:, None], rank == now[:, None]


def all_met(ranks: Tensor, edges: Callable[[Tensor], Tensor]) -> Tensor:
    """Whether every edge of each path (n, N) is among those that `edges` gives for its evidence. (n,) bool

    edges: from evidence (n, N) to the variables whose conditionals given it are trained (n, N).
    """
    met = torch.ones(len(ranks), dtype=torch.bool)
    for rows, evidence, targets in edges_of(ranks):
        met[rows[(targets & ~edges(evidence)).any(1)]] = False
    return met


def first_unmet(factorization: KnowsEdges, rank: Tensor, whole_paths: bool) -> tuple[list[int], list[int]]:
    """The evidence and the variables of the first edge of a path (N,) that training does not meet."""
    n = len(rank)
    for step in range(int(rank.masked_fill(rank == n, -1).max()) + 1):
        now = torch.where(rank < step, -1, torch.where(rank == step, 0, n))
        if not bool(factorization.meets(now[None], whole_paths)):
            return (rank < step).nonzero()[:, 0].tolist(), (rank == step).nonzero()[:, 0].tolist()
    raise ValueError("training meets every edge of this path")
