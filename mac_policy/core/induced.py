"""The exact law over all 2^N masks that a decomposition protocol induces (N <= 16).

A query mask e ~ M is decomposed along a path of edges (i, e'): variable i is queried given e'. `induced_edge_law`
walks the lattice of masks once, cardinality by cardinality, and adds up how often every edge is met.
Masks are rows of `all_masks(N)`: bit i of the row number stands for variable i.
"""

from __future__ import annotations

from typing import TypeGuard

import torch
from torch import Tensor

from mac_policy.common.checks import check_choice
from mac_policy.core.checks import check_order
from mac_policy.core.masks import MaskDistribution, TabulatedMasks, all_masks
from mac_policy.core.orders import lexicographic, positions

LARGEST_TABLE = 16  # variables; 2^16 masks x 16 edges of float64 are 8 MB

QUERIES = ("marginal", "conditional")
PROTOCOLS = ("largest", "random")
PATH_WEIGHTINGS = ("mean", "sum", "last")


def induced_edge_law(
    test_masks: TabulatedMasks,
    order: Tensor | None = None,
    *,
    query: str = "marginal",
    protocol: str = "largest",
    path_weighting: str = "mean",
) -> Tensor:
    """Probability of every edge (evidence e, next variable i): (2^N, N) float64, summing to 1.

    query 'marginal': M draws the queried variables, the path leads from the empty mask to them.
    query 'conditional': M gives the evidence, the path leads from it to the full mask.
    protocol 'largest' walks in canonical order (w-MAC), 'random' in a uniformly random one (w-RND).
    path_weighting 'mean' lets every query count once (the papers' sampler and Table 7), 'sum' every edge (Eq. 6),
    'last' only the last edge of a marginal query (redundancy reduced, edges not tuned: ablation A of Fig. 3).
    """
    check_path(query, protocol, path_weighting)
    n = test_masks.num_variables
    masks = tabulable(test_masks)
    place = positions(lexicographic(n) if order is None else check_order(order, n))
    length = masks.sum(1) if query == "marginal" else n - masks.sum(1)
    start = test_masks.log_prob(masks).exp() * (length > 0)
    if path_weighting == "mean":
        start = start / length.clamp(min=1)
    edges = _walk(start, masks, place, protocol, query == "marginal", only_first=path_weighting == "last")
    if not edges.sum() > 0:
        raise ValueError("the test masks ask for nothing: every one is empty (marginal) or full (conditional)")
    return edges / edges.sum()


def check_path(query: str, protocol: str, path_weighting: str) -> None:
    """Raise unless these are settings of `induced_edge_law` that go together."""
    check_choice("query", query, QUERIES)
    check_choice("protocol", protocol, PROTOCOLS)
    check_choice("path_weighting", path_weighting, PATH_WEIGHTINGS)
    if query == "conditional" and path_weighting == "last":
        raise ValueError("path_weighting 'last' is for marginal queries; allowed here are 'mean' and 'sum'")


def induced_mask_distribution(
    test_masks: TabulatedMasks,
    order: Tensor | None = None,
    *,
    query: str = "marginal",
    protocol: str = "largest",
    cardinality_reweighting: bool = False,
    path_weighting: str = "mean",
) -> Tensor:
    """The probability of every mask as evidence in training, D(e) = sum_i D(i, e), (2^N,) float64.

    With cardinality reweighting D(e) is multiplied by 1 + |e| and normalised again.

    >>> from mac_policy.core import UniformCardinality, induced_mask_distribution
    >>> table = induced_mask_distribution(UniformCardinality(12))
    >>> round(table[1].item(), 6)  # only variable 0 is seen
    0.076389
    """
    edges = induced_edge_law(test_masks, order, query=query, protocol=protocol, path_weighting=path_weighting)
    return mask_law(edges, cardinality_reweighting)


def mask_law(edges: Tensor, cardinality_reweighting: bool) -> Tensor:
    """From an edge law (2^N, N) to the law of its evidence masks (2^N,)."""
    law = edges.sum(1)
    if cardinality_reweighting:
        law = law * (1 + all_masks(edges.shape[1]).sum(1))
    return law / law.sum()


def is_tabulable(test_masks: MaskDistribution) -> TypeGuard[TabulatedMasks]:
    return isinstance(test_masks, TabulatedMasks) and test_masks.num_variables <= LARGEST_TABLE


def tabulable(test_masks: MaskDistribution) -> Tensor:
    """All masks of a distribution that can be tabulated; otherwise a ValueError that says why not."""
    if not isinstance(test_masks, TabulatedMasks):
        raise ValueError(f"{type(test_masks).__name__} has no log_prob(masks), which an exact table needs")
    if test_masks.num_variables > LARGEST_TABLE:
        raise ValueError(f"an exact table is for at most {LARGEST_TABLE} variables, got {test_masks.num_variables}")
    return all_masks(test_masks.num_variables)


def _walk(start: Tensor, masks: Tensor, place: Tensor, protocol: str, down: bool, only_first: bool) -> Tensor:
    """Edge masses of walks from mass `start` (2^N,) that remove (`down`) or add a variable a step. (2^N, N)"""
    flow, edges = start.clone(), torch.zeros(masks.shape, dtype=torch.float64)
    candidates = masks if down else ~masks
    law = _step_law(candidates, place, protocol, largest=down)
    bit = 1 << torch.arange(masks.shape[1])
    for left in range(masks.shape[1], 0, -1):
        codes = (candidates.sum(1) == left).nonzero()[:, 0]
        mass = (start if only_first else flow)[codes, None] * law[codes]  # (m, N)
        row, variable = candidates[codes].nonzero(as_tuple=True)
        reached = codes[row] - bit[variable] if down else codes[row] + bit[variable]
        edges[reached if down else codes[row], variable] = mass[row, variable]  # every edge is met once
        flow.index_add_(0, reached, mass[row, variable])
    return edges


def _step_law(candidates: Tensor, place: Tensor, protocol: str, largest: bool) -> Tensor:
    """Which of the candidates (2^N, N) is taken next: one at random, or the greatest (least) in canonical order."""
    if protocol == "random":
        return candidates / candidates.sum(1, keepdim=True).clamp(min=1).double()
    score = torch.where(candidates, place if largest else -place, -len(place) - 1)
    chosen = torch.nn.functional.one_hot(score.argmax(1), len(place))
    return (chosen.bool() & candidates).double()
