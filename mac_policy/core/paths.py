"""Drawing the evidence masks that inference meets: an exact sampler for each kind of query and any N.

A path law draws (evidence e (n, N) bool, next (n, N) float): `next` is the law of the variable queried after e,
or an unbiased one-hot draw from it where the law has no closed form.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mac_policy.core.edges import TabulatedSupport, support_of
from mac_policy.core.masks import ExchangeableMasks, MaskDistribution, UniformCardinality
from mac_policy.core.orders import positions
from mac_policy.core.subsets import (
    draw_below,
    draw_index,
    draw_linear,
    first_elements,
    subsets_within,
    uniform_subsets,
)
from mac_policy.core.training_draws import uniform_over


class PathDraw(NamedTuple):
    """Evidence met on the way (n, N) bool, and the law of the variable that is queried next (n, N) float."""

    evidence: Tensor
    next: Tensor


class TabulatedPaths:
    """Draws from an exact table: the law over all masks (2^N,) and its edge law (2^N, N)."""

    def __init__(self, masks: Tensor, mask_law: Tensor, edge_law: Tensor) -> None:
        reachable = mask_law > 0
        self._masks = masks[reachable]
        self._cumulative = mask_law[reachable].cumsum(0)
        self._next = (edge_law / edge_law.sum(1, keepdim=True))[reachable].float()
        self.support = TabulatedSupport(edge_law)

    def sample(self, n: int, edges: bool, generator: torch.Generator | None) -> PathDraw:
        rows = draw_index(self._cumulative, n, generator)
        return PathDraw(self._masks.index_select(0, rows), self._next.index_select(0, rows) if edges else _NO_EDGES)


class SimulatedPaths:
    """Paths through any mask distribution: a query mask, then a step of its path, both drawn exactly.

    Path weighting and reweighting tilt M by a factor that depends on the cardinality alone. Where the masks are uniform
    given their cardinality the tilted cardinality is drawn directly, otherwise M is thinned by rejection.
    """

    def __init__(
        self,
        test_masks: MaskDistribution,
        order: Tensor | None,
        query: str,
        protocol: str,
        path_weighting: str,
        cardinality_reweighting: bool,
    ) -> None:
        self.num_variables = test_masks.num_variables
        self._masks, self._query, self._protocol = test_masks, query, protocol
        self._last, self._reweighted = path_weighting == "last", cardinality_reweighting
        self._mean = path_weighting == "mean"
        self._order = order  # None: the lexicographic order, which needs no permutation
        self._tilt = self._cardinality_tilt()
        along = torch.arange(self.num_variables) if order is None else order
        self.support = support_of(test_masks, along, query, protocol, self._last)
        if isinstance(test_masks, ExchangeableMasks):
            self._cumulative = (test_masks.cardinality_law * self._tilt).cumsum(0)
            if not self._cumulative[-1] > 0:
                raise ValueError("the test masks ask for nothing: every one is empty (marginal) or full (conditional)")

    def starts(self, n: int, generator: torch.Generator | None) -> Tensor:
        """n masks of M (n, N) as often as the edges of their paths count: those of whole paths, not of one edge."""
        start = self._draw_start(n, generator)
        return start if self._order is None else start[:, positions(self._order)]

    def sample(self, n: int, edges: bool, generator: torch.Generator | None) -> PathDraw:
        start = self._draw_start(n, generator)  # (n, N) by position
        walk = self._walk_prefix if self._query == "marginal" else self._walk_on
        evidence, following = walk(start, edges, generator)
        if self._order is None:
            return PathDraw(evidence, following)
        place = positions(self._order)
        return PathDraw(evidence[:, place], following[:, place] if edges else following)

    def _cardinality_tilt(self) -> Tensor:
        """By how much a start mask of each cardinality (N+1,) counts: sum over its path of what each step counts."""
        t = torch.arange(self.num_variables + 1, dtype=torch.float64)
        length = t if self._query == "marginal" else self.num_variables - t
        first = torch.zeros_like(t) if self._query == "marginal" else t
        if self._last:
            return torch.where(t > 0, t if self._reweighted else torch.ones_like(t), 0.0)
        total = length * (1 + first) + length * (length - 1) / 2 if self._reweighted else length
        return total / length.clamp(min=1) if self._mean else total

    def _draw_start(self, n: int, generator: torch.Generator | None) -> Tensor:
        if isinstance(self._masks, ExchangeableMasks):
            sizes = draw_index(self._cumulative, n, generator)
            return uniform_subsets(sizes, self.num_variables, generator)
        drawn = [self._masks.sample(0, generator)]
        while (missing := n - sum(map(len, drawn))) > 0:
            proposed = self._masks.sample(2 * missing + 16, generator)
            keep = self._tilt[proposed.sum(1)] / self._tilt.max()
            accepted = torch.rand(len(proposed), generator=generator, dtype=torch.float64) < keep
            if not keep.any():
                raise ValueError("the test masks ask for nothing: every one is empty (marginal) or full (conditional)")
            drawn.append(proposed[accepted][:missing])
        masks = torch.cat(drawn)
        return masks if self._order is None else masks[:, self._order]

    def _walk_prefix(self, start: Tensor, edges: bool, generator: torch.Generator | None) -> PathDraw:
        """From the empty mask towards `start`: the k first of its elements, in canonical or in random order."""
        t = start.sum(1)
        if self._last:
            k = t - 1
        elif self._reweighted:
            k = draw_linear(torch.ones_like(t), t, generator)
        else:
            k = draw_below(t, generator)
        evidence = self._first(start, k, generator)
        if not edges:
            return PathDraw(evidence, _NO_EDGES)
        if self._protocol == "largest" and _is_cardinality_uniform(self._masks):
            return PathDraw(evidence, self._closed_form_next(evidence, k))
        if self._protocol == "random" and isinstance(self._masks, ExchangeableMasks):
            return PathDraw(evidence, uniform_over(~evidence))
        return PathDraw(evidence, self._first(start & ~evidence, torch.ones_like(k), generator).float())

    def _walk_on(self, start: Tensor, edges: bool, generator: torch.Generator | None) -> PathDraw:
        """From the evidence `start` towards the full mask: j more elements of the rest."""
        rest, seen = ~start, start.sum(1)
        if self._reweighted:
            j = draw_linear(1 + seen, self.num_variables - seen, generator)
        else:
            j = draw_below(self.num_variables - seen, generator)
        evidence = start | self._first(rest, j, generator)
        if not edges:
            return PathDraw(evidence, _NO_EDGES)
        if self._protocol == "random":
            return PathDraw(evidence, uniform_over(~evidence))
        return PathDraw(evidence, first_elements(~evidence, torch.ones_like(j)).float())

    def _first(self, subsets: Tensor, counts: Tensor, generator: torch.Generator | None) -> Tensor:
        if self._protocol == "largest":
            return first_elements(subsets, counts)
        return subsets_within(subsets, counts, generator)

    def _closed_form_next(self, evidence: Tensor, k: Tensor) -> Tensor:
        """D(i | e) for masks uniform in cardinality 1..N, by position: i runs over the places after e's last.

        Summing over the sizes of the query mask gives a beta integral: D(i | e) ~ B(k+1, i-k+1) when every query
        counts once, B(k+2, i-k+1) when every edge does, and a constant for the last edges alone.
        """
        place = torch.arange(self.num_variables)
        last = torch.where(evidence, place, -1).amax(1, keepdim=True)
        after = place > last
        if self._last:
            return uniform_over(after)
        extra = 0 if self._mean else 1
        log_factorial = torch.lgamma(torch.arange(self.num_variables + 3, dtype=torch.float64) + 1)
        seen = k[:, None]
        log_next = log_factorial[(place - seen).clamp(min=0)] - log_factorial[place + 1 + extra]
        return log_next.masked_fill(~after, -torch.inf).softmax(1).float()


_NO_EDGES = torch.empty(0)


def _is_cardinality_uniform(masks: MaskDistribution) -> bool:
    return isinstance(masks, UniformCardinality) and masks.low <= 1 and masks.high == masks.num_variables
