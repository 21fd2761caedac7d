"""Training masks against the law of the masks that inference meets, enumerated by a plain recursion."""

from collections import defaultdict
from itertools import combinations

import pytest
import torch

from mac_policy.core import (
    BernoulliMasks,
    FixedMasks,
    MaskTuned,
    StagedModes,
    UniformCardinality,
    UniformOrder,
    induced_edge_law,
    induced_mask_distribution,
)
from mac_policy.core.masks import all_masks, mask_codes
from mac_policy.core.paths import SimulatedPaths
from tests.core.test_masks import chi_square_p

ORDER = [2, 0, 3, 1]
OPERATORS = torch.tensor([[True, True, False, False], [False, True, False, True], [False, False, False, False]])
SETTINGS = [
    (query, protocol, path_weighting, reweighted)
    for query in ("marginal", "conditional")
    for protocol in ("largest", "random")
    for path_weighting in ("mean", "sum", "last")
    for reweighted in (False, True)
    if not (query == "conditional" and path_weighting == "last")
]


class CoinMasks:
    """Any object with sample and num_variables serves; this one gives no probabilities."""

    num_variables = 20

    def sample(self, n, generator=None):
        return torch.rand((n, 20), generator=generator) < 0.2


def entropy(law: torch.Tensor) -> float:
    return float(-(law[law > 0] * law[law > 0].log()).sum())


def code(mask: str) -> int:
    """The row of a mask written lowest index first."""
    return sum(int(bit) << i for i, bit in enumerate(mask))


def edges_by_recursion(start_law, n, order, query, protocol, path_weighting):
    """{(evidence, next): mass} by following every path of every start mask, written without tensors."""
    edges = defaultdict(float)

    def follow(seen, left, mass, path):
        """Paths that add the variables in `left` to `seen`; one path is a list of edges, with its probability."""
        if not left:
            yield path, mass
            return
        choices = [min(left, key=order.index)] if protocol == "largest" else sorted(left)
        for i in choices:
            yield from follow(seen | {i}, left - {i}, mass / len(choices), [*path, (seen, i)])

    for start, probability in start_law.items():
        everything = frozenset(range(n))
        seen, left = (frozenset(), start) if query == "marginal" else (start, everything - start)
        for path, mass in follow(seen, left, probability, []):
            counted = path[-1:] if path_weighting == "last" else path
            for edge in counted:
                edges[edge] += mass / (len(path) if path_weighting == "mean" else 1)
    total = sum(edges.values())
    return {edge: mass / total for edge, mass in edges.items()}


def as_table(edges, n):
    table = torch.zeros(2**n, n, dtype=torch.float64)
    for (seen, i), mass in edges.items():
        table[sum(1 << v for v in seen), i] += mass
    return table


def uniform_cardinality(n, low, high):
    law = {}
    for t in range(low, high + 1):
        subsets = [frozenset(c) for c in combinations(range(n), t)]
        law |= {s: 1 / (high - low + 1) / len(subsets) for s in subsets}
    return law


@pytest.mark.parametrize(("query", "protocol", "path_weighting", "reweighted"), SETTINGS)
def test_exact_tables_equal_the_plain_recursion(query, protocol, path_weighting, reweighted):
    low, high = (1, 4) if query == "marginal" else (0, 3)
    edges = as_table(
        edges_by_recursion(uniform_cardinality(4, low, high), 4, ORDER, query, protocol, path_weighting), 4
    )
    masks, order = UniformCardinality(4, low, high), torch.tensor(ORDER)
    settings = {"query": query, "protocol": protocol, "path_weighting": path_weighting}
    torch.testing.assert_close(induced_edge_law(masks, order, **settings), edges)
    law = edges.sum(1) * (1 + all_masks(4).sum(1) if reweighted else 1)
    table = induced_mask_distribution(masks, order, cardinality_reweighting=reweighted, **settings)
    torch.testing.assert_close(table, law / law.sum())


@pytest.mark.parametrize("n", [4, 9])
@pytest.mark.parametrize(("query", "protocol", "path_weighting", "reweighted"), SETTINGS)
def test_both_samplers_follow_the_exact_law(n, query, protocol, path_weighting, reweighted):
    masks = UniformCardinality(n) if query == "marginal" else UniformCardinality(n, 0, n - 1)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(n))
    settings = {"query": query, "protocol": protocol, "path_weighting": path_weighting}
    law = induced_mask_distribution(masks, order, cardinality_reweighting=reweighted, **settings)
    g = torch.Generator().manual_seed(3)
    tabulated = MaskTuned(masks, order, cardinality_reweighting=reweighted, evidence_masks=masks, **settings)
    simulated = SimulatedPaths(masks, order, query, protocol, path_weighting, reweighted)
    for evidence in (
        tabulated.training_masks(40_000, g).evidence,
        simulated.sample(40_000, False, g).evidence,
    ):
        assert chi_square_p(torch.bincount(mask_codes(evidence), minlength=2**n), law) > 1e-5


@pytest.mark.parametrize("masks", [FixedMasks(OPERATORS), BernoulliMasks(4, 0.3)], ids=["fixed", "bernoulli"])
@pytest.mark.parametrize(("query", "protocol", "path_weighting", "reweighted"), SETTINGS)
def test_any_mask_distribution_is_walked_exactly(masks, query, protocol, path_weighting, reweighted):
    order = torch.tensor(ORDER)
    settings = {"query": query, "protocol": protocol, "path_weighting": path_weighting}
    law = induced_mask_distribution(masks, order, cardinality_reweighting=reweighted, **settings)
    paths = SimulatedPaths(masks, order, query, protocol, path_weighting, reweighted)
    draw = paths.sample(40_000, True, torch.Generator().manual_seed(3))
    codes = mask_codes(draw.evidence)
    assert chi_square_p(torch.bincount(codes, minlength=16), law) > 1e-5
    edges = induced_edge_law(masks, order, **settings)
    met = torch.zeros(16, 4).index_add(0, codes, draw.next)
    following = met / met.sum(1, keepdim=True)
    often = law > 0.02
    torch.testing.assert_close(following[often], (edges / edges.sum(1, keepdim=True)).float()[often], atol=0.03, rtol=0)


@pytest.mark.parametrize("n", [4, 9])
@pytest.mark.parametrize("path_weighting", ["mean", "sum", "last"])
@pytest.mark.parametrize("protocol", ["largest", "random"])
def test_edge_weights_equal_the_enumerated_edge_law(n, path_weighting, protocol):
    """The closed form that serves any N, and the table, both give D(i | e) for every evidence e."""
    order = torch.randperm(n, generator=torch.Generator().manual_seed(1))
    masks = UniformCardinality(n)
    edges = induced_edge_law(masks, order, protocol=protocol, path_weighting=path_weighting)
    exact = (edges / edges.sum(1, keepdim=True)).float()
    g = torch.Generator().manual_seed(0)
    tabulated = MaskTuned(masks, order, protocol=protocol, weights="edge", path_weighting=path_weighting)
    drawn = tabulated.training_masks(2000, g)
    torch.testing.assert_close(drawn.weights, exact[mask_codes(drawn.evidence)])
    paths = SimulatedPaths(masks, order, "marginal", protocol, path_weighting, True).sample(2000, True, g)
    torch.testing.assert_close(paths.next, exact[mask_codes(paths.evidence)], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(
    ("settings", "columns", "nats"),
    [
        ({}, {"100000000000": 76389, "111111111110": 6944, "011111111110": 631}, 4.439),
        (
            {"cardinality_reweighting": True},
            {"100000000000": 40741, "111111111110": 22222, "011111111110": 1852},
            5.521,
        ),
        ({"protocol": "random"}, {}, 5.745),
    ],
)
def test_table_7_exactly(settings, columns, nats):
    law = induced_mask_distribution(UniformCardinality(12), **settings)
    for mask, per_million in columns.items():
        assert law[code(mask)].item() * 1e6 == pytest.approx(per_million, abs=0.5)
    assert entropy(law) == pytest.approx(nats, abs=5e-4)


def test_table_7_to_the_last_digit():
    law = induced_mask_distribution(UniformCardinality(12))
    assert law[code("100000000000")].item() == pytest.approx(11 / 144, abs=1e-12)
    assert law[code("111111111110")].item() == pytest.approx(1 / 144, abs=1e-12)


@pytest.mark.parametrize(
    "factorization",
    [
        UniformOrder(6),
        MaskTuned(UniformCardinality(6)),
        MaskTuned(UniformCardinality(6), query="conditional"),
        MaskTuned(UniformCardinality(6), query="both", weights="edge"),
        MaskTuned(UniformCardinality(6), protocol="random", weights="edge"),
        MaskTuned(UniformCardinality(40), torch.arange(39, -1, -1), query="both", weights="edge"),
        MaskTuned(FixedMasks(torch.rand((5, 30)) < 0.5), query="both", protocol="random", weights="edge"),
        MaskTuned(UniformCardinality(1)),
        UniformOrder(1),
        StagedModes((3, 4)),
        StagedModes((3, 4), channels=3),
        StagedModes((5,), {"random": [], "inputs first": [0, 1, 2, 3]}),
    ],
    ids=lambda f: f"{type(f).__name__}{f.num_variables}",
)
def test_training_weights_are_a_law_over_unseen_variables(factorization):
    masks = factorization.training_masks(300, torch.Generator().manual_seed(0))
    n = factorization.num_variables
    assert masks.evidence.shape == masks.weights.shape == (300, n)
    assert (masks.weights >= 0).all()
    assert (masks.weights[masks.evidence] == 0).all()
    total = torch.full((300,), float(getattr(factorization, "channels", 1)))
    torch.testing.assert_close(masks.weights.sum(1), total)
    again = factorization.training_masks(300, torch.Generator().manual_seed(0))
    assert torch.equal(masks.evidence, again.evidence)
    assert torch.equal(masks.weights, again.weights)


@pytest.mark.parametrize("factorization", [UniformOrder(6), MaskTuned(UniformCardinality(6)), MaskTuned(CoinMasks())])
def test_parallel_weights_are_the_mean_over_what_is_unseen(factorization):
    masks = factorization.training_masks(200, torch.Generator().manual_seed(0))
    for evidence, weights in zip(masks.evidence.tolist(), masks.weights.tolist(), strict=True):
        share = 1 / evidence.count(False)
        assert weights == pytest.approx([0.0 if seen else share for seen in evidence])


def test_uniform_order_draws_edges_uniform_in_cardinality():
    evidence = UniformOrder(4).training_masks(40_000, torch.Generator().manual_seed(0)).evidence
    law = UniformCardinality(4, 0, 3).log_prob(all_masks(4)).exp()
    assert chi_square_p(torch.bincount(mask_codes(evidence), minlength=16), law) > 1e-4


def test_both_is_half_marginal_half_conditional():
    both = MaskTuned(UniformCardinality(4), query="both", cardinality_reweighting=False)
    evidence = both.training_masks(40_000, torch.Generator().manual_seed(0)).evidence
    marginal = induced_mask_distribution(UniformCardinality(4))
    conditional = induced_mask_distribution(UniformCardinality(4, 0, 3), query="conditional")
    law = (marginal + conditional) / 2
    assert chi_square_p(torch.bincount(mask_codes(evidence), minlength=16), law) > 1e-4


@pytest.mark.parametrize(
    "factorization",
    [
        UniformOrder(4),
        MaskTuned(UniformCardinality(4), torch.tensor([2, 0, 3, 1])),
        MaskTuned(UniformCardinality(4), protocol="random"),
        StagedModes((4,), {"random": []}),
        StagedModes((4,), {"some first": [1, 3, 0]}),
        StagedModes((2,), {"second first": [1]}, channels=2),
    ],
)
def test_the_law_of_the_next_is_how_often_paths_with_this_past_go_there(factorization):
    n = 20_000
    query = torch.tensor([[True, True, False, True]]).expand(n, 4)
    ranks = factorization.ranks(query=query, given=~query, generator=torch.Generator().manual_seed(0))
    for now in range(int(ranks[0].masked_fill(~query[0], -1).max()) + 1):
        step = torch.full((n,), now)
        law, taken = factorization.next_law(ranks, step), (ranks == now).float()
        pasts = mask_codes(ranks < now)
        for past in pasts.unique():
            here = pasts == past
            assert (law[here] == law[here][0]).all()
            torch.testing.assert_close(taken[here].mean(0), law[here][0], atol=2.5 / float(here.sum()) ** 0.5, rtol=0)


QUERY = torch.tensor([[True, False, True, True], [False, False, False, False], [False, True, False, False]])
GIVEN = torch.tensor([[False, True, False, False], [False, False, True, False], [True, False, True, True]])


def test_ranks_follow_the_canonical_order():
    ranks = MaskTuned(UniformCardinality(4), torch.tensor(ORDER)).ranks(query=QUERY, given=GIVEN)
    assert ranks.tolist() == [[1, -1, 0, 2], [4, 4, -1, 4], [-1, 0, -1, -1]]


@pytest.mark.parametrize("factorization", [UniformOrder(4), MaskTuned(UniformCardinality(4), protocol="random")])
def test_random_ranks_are_uniform_permutations_of_the_queried(factorization):
    query, given = QUERY[:1].expand(6000, 4), GIVEN[:1].expand(6000, 4)
    ranks = factorization.ranks(query=query, given=given, generator=torch.Generator().manual_seed(0))
    assert (ranks[:, 1] == -1).all()
    asked = ranks[:, [0, 2, 3]]
    assert torch.equal(asked.sort(1).values, torch.arange(3).expand(6000, 3))
    counts = torch.bincount((asked * torch.tensor([9, 3, 1])).sum(1))
    assert chi_square_p(counts[counts > 0], torch.full((6,), 1 / 6)) > 1e-4


@pytest.mark.parametrize("query", ["marginal", "conditional", "both"])
def test_a_distribution_that_only_samples_serves(query):
    masks = MaskTuned(CoinMasks(), query=query, weights="edge").training_masks(500, torch.Generator().manual_seed(0))
    assert torch.equal(masks.weights.sum(1), torch.ones(500))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: UniformOrder(0), "num_variables must be a whole number of at least 1, got 0"),
        (lambda: MaskTuned(UniformCardinality(3), torch.tensor([0, 0, 1])), r"permutation of 0..2, got \[0, 0, 1\]"),
        (lambda: MaskTuned(UniformCardinality(3), torch.tensor([0.0, 1, 2])), "permutation"),
        (lambda: MaskTuned(UniformCardinality(3), query="marginl"), "unknown query 'marginl'.*did you mean 'marginal'"),
        (lambda: MaskTuned(UniformCardinality(3), protocol="first"), "allowed are 'largest', 'random'"),
        (lambda: MaskTuned(UniformCardinality(3), weights="none"), "'parallel', 'edge'"),
        (lambda: MaskTuned(UniformCardinality(3), path_weighting="max"), "'mean', 'sum', 'last'"),
        (lambda: MaskTuned(UniformCardinality(3), query="conditional", path_weighting="last"), "marginal queries"),
        (lambda: MaskTuned(UniformCardinality(20), path_weighting="max"), "unknown path_weighting 'max'"),
        (lambda: MaskTuned(UniformCardinality(20), protocol="first"), "unknown protocol 'first'"),
        (lambda: MaskTuned(UniformCardinality(20), query="conditional", path_weighting="last"), "marginal queries"),
        (lambda: MaskTuned(UniformCardinality(20), query="both", path_weighting="last"), "marginal queries"),
        (lambda: MaskTuned(UniformCardinality(3), order="abc"), "order must be .*, got 'abc'"),
        (lambda: MaskTuned(UniformCardinality(3), order=[2, 0]), r"permutation of 0..2, got \[2, 0\]"),
        (lambda: UniformOrder(3).training_masks(-1), "n must be .* at least 0, got -1"),
        (lambda: MaskTuned(UniformCardinality(3)).training_masks(-1), "n must be .* at least 0, got -1"),
        (lambda: MaskTuned(UniformCardinality(3)).training_masks(2.5), "got 2.5"),
        (lambda: MaskTuned(UniformCardinality(30, 30), query="conditional", evidence_masks=UniformCardinality(30, 30)),
         "ask for nothing"),
        (lambda: MaskTuned(FixedMasks(torch.zeros(2, 30, dtype=torch.bool))).training_masks(3), "ask for nothing"),
        (lambda: MaskTuned(FixedMasks(torch.zeros(2, 3, dtype=torch.bool))), "ask for nothing"),
        (lambda: induced_mask_distribution(UniformCardinality(17)), "at most 16 variables, got 17"),
        (lambda: induced_mask_distribution(CoinMasks()), "CoinMasks has no log_prob"),
        (lambda: UniformOrder(3).ranks(query=torch.ones(2, 3), given=torch.zeros(2, 3)), "query must be .*torch.bool"),
        (lambda: UniformOrder(3).ranks(query=QUERY, given=GIVEN), r"\(3, 4\)"),
        (lambda: UniformOrder(4).ranks(query=QUERY, given=QUERY), "variable 0 of row 0 is in both"),
    ],
)  # fmt: skip
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
