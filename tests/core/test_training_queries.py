"""Whole paths for path networks: they meet every edge exactly as often as inference does."""

import pytest
import torch

from mac_policy.core import FixedMasks, MaskTuned, StagedModes, UniformCardinality, UniformOrder, induced_edge_law
from mac_policy.core.factorization import whole_path
from mac_policy.core.masks import mask_codes
from tests.core.models import FACTORIZATIONS

ORDER = torch.tensor([2, 0, 3, 1])
FIXED = FixedMasks(torch.tensor([[1, 1, 0, 1], [0, 0, 1, 0], [1, 0, 1, 1]]).bool(), torch.tensor([0.5, 0.2, 0.3]))
DRAWS = 60_000


def edges_met(queries):
    """(2^N, N): the weight with which every edge is met by a drawn query."""
    n = queries.ranks.shape[1]
    law = torch.zeros(2**n, n, dtype=torch.float64)
    for i in range(n):
        evidence = queries.ranks < queries.ranks[:, i : i + 1]
        law[:, i].index_add_(0, mask_codes(evidence), queries.weights[:, i].double())
    return law / len(queries.ranks)


@pytest.mark.parametrize(
    "masks", [UniformCardinality(4), UniformCardinality(4, 1, 3), FIXED], ids=["any", "one-to-three", "fixed"]
)
@pytest.mark.parametrize("protocol", ["largest", "random"])
@pytest.mark.parametrize(
    ("query", "path_weighting"),
    [("marginal", "mean"), ("marginal", "sum"), ("marginal", "last"), ("conditional", "mean"), ("conditional", "sum")],
)
def test_the_edges_of_drawn_queries_follow_the_exact_law(masks, protocol, query, path_weighting):
    factorization = MaskTuned(
        masks, ORDER, query=query, protocol=protocol, path_weighting=path_weighting, evidence_masks=masks
    )
    queries = factorization.training_queries(DRAWS, torch.Generator().manual_seed(0))
    exact = induced_edge_law(masks, ORDER, query=query, protocol=protocol, path_weighting=path_weighting)
    torch.testing.assert_close(edges_met(queries), exact, atol=0.006, rtol=0)
    assert edges_met(queries)[exact == 0].sum() == 0
    torch.testing.assert_close(queries.weights.sum(1), torch.ones(DRAWS))


def test_corrections_of_parallel_training_have_no_part_in_it():
    plain = MaskTuned(UniformCardinality(5), cardinality_reweighting=False)
    corrected = MaskTuned(UniformCardinality(5), cardinality_reweighting=True, weights="edge")
    first, second = (f.training_queries(9, torch.Generator().manual_seed(1)) for f in (plain, corrected))
    assert torch.equal(first.ranks, second.ranks)
    assert torch.equal(first.weights, second.weights)


def test_both_is_half_marginal_half_conditional():
    both = MaskTuned(UniformCardinality(4), ORDER, query="both")
    queries = both.training_queries(DRAWS, torch.Generator().manual_seed(0))
    marginal = induced_edge_law(UniformCardinality(4), ORDER)
    conditional = induced_edge_law(UniformCardinality(4, 0, 3), ORDER, query="conditional")
    torch.testing.assert_close(edges_met(queries), (marginal + conditional) / 2, atol=0.006, rtol=0)


def test_uniform_order_asks_for_all_that_is_not_given_in_a_random_order():
    queries = UniformOrder(3).training_queries(DRAWS, torch.Generator().manual_seed(0))
    assert (queries.given | queries.query).all()
    nothing = ~queries.given.any(1)
    assert nothing.double().mean().item() == pytest.approx(0.5 + 0.5 / 3, abs=0.01)
    _, counts = queries.ranks[nothing].unique(dim=0, return_counts=True)
    torch.testing.assert_close(counts / nothing.sum(), torch.full((6,), 1 / 6), atol=0.01, rtol=0)


def test_staged_modes_walk_each_rows_own_mode_in_stages():
    staged = StagedModes((6,), {"random": [], "first": [1, 4]}, channels=2)
    queries = staged.training_queries(4000, torch.Generator().manual_seed(0))
    assert queries.mode.unique(return_counts=True)[1].min() > 1800
    first = torch.tensor([False, True, False, False, True, False] * 2)
    staged_rows = queries.ranks[queries.mode == 1]
    asked = staged_rows >= 0
    latest_first = staged_rows.masked_fill(~(first & asked), -1).amax(1)
    earliest_other = staged_rows.masked_fill(first | ~asked, 99).amin(1)
    assert (latest_first < earliest_other).all()
    assert torch.equal(queries.ranks[:, :6], queries.ranks[:, 6:])  # channels together
    assert (queries.ranks[:, 0] < queries.ranks[:, 1])[queries.mode == 0].any()


@pytest.mark.parametrize("name", FACTORIZATIONS)
def test_queries_are_ranks_of_the_factorization_with_the_given_in_order(name):
    factorization = FACTORIZATIONS[name]
    queries = factorization.training_queries(200, torch.Generator().manual_seed(0))
    again = factorization.training_queries(200, torch.Generator().manual_seed(0))
    assert torch.equal(queries.ranks, again.ranks)
    assert not (queries.query & queries.given).any()
    assert (queries.weights[~queries.query] == 0).all()
    torch.testing.assert_close(queries.weights.sum(1), torch.ones(200))
    if factorization.deterministic:
        assert torch.equal(queries.ranks, whole_path(factorization, query=queries.query, given=queries.given))
        place = factorization.order.argsort()
        for ranks in queries.ranks:
            for part in (ranks < 0, (ranks >= 0) & (ranks < len(ranks))):
                chosen = part.nonzero()[:, 0]
                assert torch.equal(ranks[chosen].argsort(), place[chosen].argsort())
    for ranks, given in zip(queries.ranks, queries.given, strict=True):
        assert ranks[given].max() < 0 if given.any() else True
    assert factorization.training_queries(0).ranks.shape == (0, factorization.num_variables)


def test_queries_move_with_all_their_parts():
    queries = StagedModes((4,)).training_queries(3).to("meta")
    assert {part.device.type for part in queries} == {"meta"}
    assert UniformOrder(4).training_queries(3).to("cpu").mode is None
