"""Which conditionals are trained, and along which path a query is answered."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from mac_policy.common.checks import check_choice, check_count
from mac_policy.core.checks import check_generator, check_order
from mac_policy.core.edges import Support, all_met
from mac_policy.core.induced import QUERIES, check_path, induced_edge_law, is_tabulable, mask_law, tabulable
from mac_policy.core.masks import MaskDistribution, UniformCardinality
from mac_policy.core.orders import lexicographic
from mac_policy.core.paths import PathDraw, SimulatedPaths, TabulatedPaths
from mac_policy.core.question import check_query, ranks_by_key, ranks_in_order, still_asked, with_order_of_given
from mac_policy.core.subsets import draw_below, uniform_subsets
from mac_policy.core.training_draws import (
    TrainingMasks,
    TrainingQueries,
    only_last,
    uniform_over,
)


class Factorization(Protocol):
    """The law of paths that training and inference share."""

    num_variables: int
    deterministic: bool  # whether `ranks` is a function of the masks alone

    def training_masks(self, n: int, generator: torch.Generator | None = None) -> TrainingMasks: ...

    def training_queries(self, n: int, generator: torch.Generator | None = None) -> TrainingQueries:
        """Queries with their whole paths, for networks that answer a path in one pass."""
        ...

    def ranks(self, *, query: Tensor, given: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The step 0, 1, ... at which each queried variable is answered, (n, N) long.

        Given variables have rank -1, variables neither given nor queried rank N. Equal ranks are answered together.
        Ranks are drawn and returned on the CPU, wherever the masks are; so `generator` is one of the CPU.
        """
        ...

    def next_law(self, ranks: Tensor, now: Tensor) -> Tensor:
        """How likely each variable is answered in step `now` (n,), after what `ranks` (n, N) has before it. (n, N)

        Over all paths with this past, of which `ranks` is one: its own next variable alone where it had no choice.
        """
        ...

    def path_mode(self, n: int) -> Tensor | None:
        """The activation mode of these paths (n,), or None without modes."""
        ...


class RandomOrder:
    """Factorisations without modes: paths in a random order, unless a subclass knows a canonical one."""

    deterministic = False
    num_variables: int

    def ranks(self, *, query: Tensor, given: Tensor, generator: torch.Generator | None = None) -> Tensor:
        check_generator(generator)
        query, given = check_query(self.num_variables, query=query, given=given)
        return ranks_by_key(torch.rand(query.shape, generator=generator, dtype=torch.float64), query=query, given=given)

    def next_law(self, ranks: Tensor, now: Tensor) -> Tensor:
        """The path's own next variable where it had no choice, else a uniform one of the variables left."""
        return (ranks == now[:, None]).float() if self.deterministic else uniform_over(still_asked(ranks, now))

    def path_mode(self, n: int) -> None:
        return None


class UniformOrder(RandomOrder):
    """ARDM: a random order, a uniform step of it, all unseen variables weighted alike.

    >>> from mac_policy.core import UniformOrder
    >>> masks = UniformOrder(9).training_masks(4)
    """

    def __init__(self, num_variables: int) -> None:
        self.num_variables = check_count("num_variables", num_variables)

    def __repr__(self) -> str:
        return f"UniformOrder({self.num_variables})"

    def meets_all(self, whole_paths: bool) -> bool:
        return True

    def meets(self, ranks: Tensor, whole_paths: bool) -> Tensor:
        return torch.ones(len(ranks), dtype=torch.bool)

    def remedy(self, whole_paths: bool) -> str:
        return ""

    def training_masks(self, n: int, generator: torch.Generator | None = None) -> TrainingMasks:
        check_generator(generator)
        seen = draw_below(torch.full((check_count("n", n, 0),), self.num_variables), generator)
        evidence = uniform_subsets(seen, self.num_variables, generator)
        return TrainingMasks(evidence, uniform_over(~evidence))

    def training_queries(self, n: int, generator: torch.Generator | None = None) -> TrainingQueries:
        """The rest given ARDM's evidence in half of the rows, everything given nothing in the others."""
        given = self.training_masks(n, generator).evidence & (torch.rand((n, 1), generator=generator) < 0.5)
        return TrainingQueries(whole_path(self, query=~given, given=given, generator=generator), uniform_over(~given))


class SharedOrder(UniformOrder):
    """ARDM's training; all rows are answered along one order, so that a row's answer does not depend on the others.

    >>> import torch
    >>> from mac_policy.core.factorization import SharedOrder
    >>> everything = torch.ones(2, 3, dtype=torch.bool)
    >>> SharedOrder(torch.tensor([2, 0, 1])).ranks(query=everything, given=~everything)[1]
    tensor([1, 2, 0])
    """

    deterministic = True

    def __init__(self, order: Tensor) -> None:
        super().__init__(len(order))
        self.order = check_order(order, len(order))

    def __repr__(self) -> str:
        return f"SharedOrder({self.order.tolist()})"

    def ranks(self, *, query: Tensor, given: Tensor, generator: torch.Generator | None = None) -> Tensor:
        query, given = check_query(self.num_variables, query=query, given=given)
        return ranks_in_order(self.order, query=query, given=given)


class MaskTuned(RandomOrder):
    """MAC: trains the conditionals that queries with masks ~ M meet, as often as they meet them.

    query: 'marginal' (M draws the queried variables), 'conditional' (`evidence_masks` draws the evidence and all
    others are queried), 'both' (half and half). protocol: 'largest' walks in canonical order (w-MAC), 'random' in a
    random one (w-RND). weights: 'parallel' trains every unseen variable alike (the paper), 'edge' each by how often
    it is queried next given that evidence. path_weighting: see `induced_edge_law`.

    `training_queries` draws whole paths, for networks that answer them in one pass: a query as often as it counts,
    its edges all alike, so that the loss is over the edges that inference meets, exactly. What corrects the parallel
    training of unseen variables (`cardinality_reweighting`, `weights`) has no part in it.

    The paper's MAC is the default; its ablations are protocol='random', cardinality_reweighting=False, and
    path_weighting='last' (ablation A). For N <= 16 masks come from an exact table, beyond from exact paths.

    >>> from mac_policy.core import MaskTuned, UniformCardinality
    >>> masks = MaskTuned(UniformCardinality(9)).training_masks(4)
    """

    def __init__(
        self,
        test_masks: MaskDistribution,
        order: Tensor | None = None,
        query: str = "marginal",
        protocol: str = "largest",
        cardinality_reweighting: bool = True,
        weights: str = "parallel",
        path_weighting: str = "mean",
        evidence_masks: MaskDistribution | None = None,
    ) -> None:
        check_choice("query", query, (*QUERIES, "both"))
        kinds = QUERIES if query == "both" else (query,)
        for kind in kinds:
            check_path(kind, protocol, path_weighting)
        self._edge_weights = check_choice("weights", weights, ("parallel", "edge")) == "edge"
        for name, masks in (("test_masks", test_masks), ("evidence_masks", evidence_masks or test_masks)):
            if not (hasattr(masks, "num_variables") and hasattr(masks, "sample")):
                raise ValueError(f"{name} must be a law of masks such as UniformCardinality, got {masks!r}")
        self.num_variables = check_count("num_variables", test_masks.num_variables)
        self.order = lexicographic(self.num_variables) if order is None else check_order(order, self.num_variables)
        self.deterministic = protocol == "largest"
        starts = {"marginal": test_masks, "conditional": evidence_masks or as_evidence(test_masks)}
        self._laws = [
            _path_law(starts[kind], self.order, kind, protocol, path_weighting, cardinality_reweighting)
            for kind in kinds
        ]
        self._whole = {
            kind: SimulatedPaths(starts[kind], self.order, kind, protocol, path_weighting, False) for kind in kinds
        }
        self._last_edge = path_weighting == "last"
        self._settings = f"query={query!r}, protocol={protocol!r}, weights={weights!r}"

    def __repr__(self) -> str:
        return f"MaskTuned({self._settings})"

    def meets_all(self, whole_paths: bool) -> bool:
        """Whether training certainly meets every edge; taken for granted where the masks do not tell their law."""
        supports = self._supports()
        if whole_paths or self._edge_weights:
            return supports is None or any(support.every_edge for support in supports)
        return supports is None or any(support.every_mask for support in supports)

    def meets(self, ranks: Tensor, whole_paths: bool) -> Tensor:
        supports = self._supports()
        if supports is None:
            return torch.ones(len(ranks), dtype=torch.bool)

        def trained(evidence: Tensor) -> Tensor:
            following = torch.stack([support.edges(evidence) for support in supports]).any(0)
            only_following = whole_paths or self._edge_weights
            return following if only_following else following.any(1, keepdim=True) & ~evidence

        met = torch.stack([support.draws(ranks) for support in supports]).any(0)
        met[~met] = all_met(ranks[~met], trained)
        return met

    def remedy(self, whole_paths: bool) -> str:
        n = self.num_variables
        if whole_paths or self._edge_weights:
            return f"To ask for any variables given any others, train with UniformOrder({n})."
        return (
            "To ask for any variables given any others, train with "
            f"MaskTuned(UniformCardinality({n}), query='both') or UniformOrder({n}); a TableModel with its default, "
            "factorization='any'."
        )

    def _supports(self) -> list[Support] | None:
        """The edges of each kind of queries; None if one of them does not tell."""
        found = [law.support for law in self._laws]
        return None if any(support is None for support in found) else [each for each in found if each is not None]

    def training_masks(self, n: int, generator: torch.Generator | None = None) -> TrainingMasks:
        check_generator(generator)
        evidence, following = self._draw(check_count("n", n, 0), generator)
        return TrainingMasks(evidence, following if self._edge_weights else uniform_over(~evidence))

    def training_queries(self, n: int, generator: torch.Generator | None = None) -> TrainingQueries:
        check_generator(generator)
        query, given = self._draw_queries(check_count("n", n, 0), generator)
        ranks = whole_path(self, query=query, given=given, generator=generator)
        return TrainingQueries(ranks, only_last(ranks, query) if self._last_edge else uniform_over(query))

    def ranks(self, *, query: Tensor, given: Tensor, generator: torch.Generator | None = None) -> Tensor:
        if not self.deterministic:
            return super().ranks(query=query, given=given, generator=generator)
        check_generator(generator)
        query, given = check_query(self.num_variables, query=query, given=given)
        return ranks_in_order(self.order, query=query, given=given)

    def _draw_queries(self, n: int, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """Masks of queried and of given variables (n, N) each, drawn as often as they count."""
        starts = {kind: law.starts(n, generator) for kind, law in self._whole.items()}
        pairs = [(s, s & False) if kind == "marginal" else (~s, s) for kind, s in starts.items()]
        if len(pairs) == 1:
            return pairs[0]
        (query, given), (other_query, other_given) = pairs
        first = torch.rand((n, 1), generator=generator) < 0.5
        return torch.where(first, query, other_query), torch.where(first, given, other_given)

    def _draw(self, n: int, generator: torch.Generator | None) -> PathDraw:
        if len(self._laws) == 1:
            return self._laws[0].sample(n, self._edge_weights, generator)
        marginal = torch.rand(n, generator=generator) < 0.5
        rows = torch.argsort(torch.argsort(~marginal, stable=True))  # where each row stands when marginal ones lead
        first = int(marginal.sum())
        draws = [
            law.sample(m, self._edge_weights, generator) for law, m in zip(self._laws, (first, n - first), strict=True)
        ]
        following = torch.cat([d.next for d in draws])
        return PathDraw(
            torch.cat([d.evidence for d in draws])[rows], following[rows] if self._edge_weights else following
        )


def _path_law(
    start: MaskDistribution, order: Tensor, kind: str, protocol: str, path_weighting: str, reweighting: bool
) -> TabulatedPaths | SimulatedPaths:
    if is_tabulable(start):
        edges = induced_edge_law(start, order, query=kind, protocol=protocol, path_weighting=path_weighting)
        return TabulatedPaths(tabulable(start), mask_law(edges, reweighting), edges)
    lexicographical = torch.equal(order, lexicographic(len(order)))
    return SimulatedPaths(start, None if lexicographical else order, kind, protocol, path_weighting, reweighting)


def whole_path(
    factorization: Factorization, *, query: Tensor, given: Tensor, generator: torch.Generator | None = None
) -> Tensor:
    """The ranks of a query, with its given variables in the order in which a path would query them. (n, N)"""
    ranks = factorization.ranks(query=query, given=given, generator=generator)
    order = factorization.ranks(query=given, given=torch.zeros_like(given), generator=generator)
    return with_order_of_given(ranks, given.cpu(), order)


def as_evidence(query_masks: MaskDistribution) -> MaskDistribution:
    """The evidence law that goes with a law of queries: a cardinality of 0..N-1 where queries have 1..N."""
    if isinstance(query_masks, UniformCardinality) and query_masks.low > 0:
        return UniformCardinality(query_masks.num_variables, query_masks.low - 1, query_masks.high - 1)
    return query_masks
