"""Queries whose conditionals training never meets: decided exactly, reported once."""

import itertools
import pickle
import warnings

import pytest
import torch

from mac_policy.core import AnyOrderModel, BernoulliMasks, FixedMasks, MaskTuned, StagedModes, UniformCardinality
from mac_policy.core import UniformOrder as AnyOrder
from mac_policy.core.edges import CardinalitySupport, ListedSupport, TabulatedSupport, edges_of
from mac_policy.core.heads import Gaussian
from mac_policy.core.induced import induced_edge_law
from mac_policy.core.masks import all_masks
from mac_policy.core.networks import MLP, PathTransformer
from mac_policy.core.untrained import UntrainedQueryWarning

N = 5
ORDER = torch.tensor([2, 0, 4, 1, 3])
LISTED = FixedMasks(torch.tensor([[1, 1, 0, 0, 0], [0, 1, 0, 1, 1], [0, 0, 0, 0, 0], [1, 0, 1, 1, 1]]).bool())
LAWS = {
    "uniform": UniformCardinality(N),
    "large": UniformCardinality(N, 3, 4),
    "small": UniformCardinality(N, 0, 2),
    "coins": BernoulliMasks(N, 0.3),
    "listed": LISTED,
}
KINDS = [
    (query, protocol, weighting)
    for query in ("marginal", "conditional")
    for protocol in ("largest", "random")
    for weighting in ("mean", "sum", "last")
    if not (query == "conditional" and weighting == "last")
]


def paths_of(mask, query, protocol):
    """Every path of a mask, each a list of edges (evidence, variable)."""
    seen = frozenset() if query == "marginal" else frozenset(mask)
    left = [i for i in ORDER.tolist() if (i in mask) == (query == "marginal")]
    orders = itertools.permutations(left) if protocol == "random" else [left]
    for order in orders:
        yield [(seen | frozenset(order[:k]), i) for k, i in enumerate(order)]


def edges_met(law, query, protocol, weighting):
    """All edges on the paths of all masks of a law, by plain sets."""
    found = set()
    for mask in all_masks(N)[law.log_prob(all_masks(N)).exp() > 0]:
        for path in paths_of(set(mask.nonzero()[:, 0].tolist()), query, protocol):
            found |= set(path[-1:] if weighting == "last" else path)
    return found


def all_queries():
    """Every (query, given) of N variables: 3^N rows."""
    roles = torch.tensor(list(itertools.product(range(3), repeat=N)))
    return roles == 1, roles == 2


def is_trained(ranks, trained):
    """Whether all edges of each path are among the trained ones, with one variable and one step after another."""
    answers = []
    for rank in ranks.tolist():
        steps = range(max([r for r in rank if r < N], default=-1) + 1)
        edges = [(frozenset(i for i in range(N) if rank[i] < s), j) for s in steps for j in range(N) if rank[j] == s]
        answers.append(all(edge in trained for edge in edges))
    return torch.tensor(answers)


@pytest.mark.parametrize(("query", "protocol", "weighting"), KINDS)
@pytest.mark.parametrize("law", LAWS)
def test_what_is_met_is_what_enumeration_finds(law, query, protocol, weighting):
    met = edges_met(LAWS[law], query, protocol, weighting)
    masks = {"test_masks": LAWS[law], "evidence_masks": LAWS[law] if query == "conditional" else None}
    settings = {"query": query, "protocol": protocol, "path_weighting": weighting}
    given_all = {(e, i) for e, _ in met for i in range(N) if i not in e}
    for weights, whole_paths, trained in (
        ("parallel", False, given_all),
        ("edge", False, met),
        ("parallel", True, met),
    ):
        factorization = MaskTuned(**masks, order=ORDER, weights=weights, **settings)
        asked, given = all_queries()
        ranks = factorization.ranks(query=asked, given=given, generator=torch.Generator().manual_seed(0))
        expected = is_trained(ranks, trained)
        assert torch.equal(factorization.meets(ranks, whole_paths), expected)
        assert not factorization.meets_all(whole_paths) or expected.all()


@pytest.mark.parametrize("weights", ["parallel", "edge"])
def test_both_kinds_of_queries_meet_the_edges_of_either(weights):
    factorization = MaskTuned(UniformCardinality(N), ORDER, query="both", weights=weights)
    evidence = UniformCardinality(N, 0, N - 1)
    met = edges_met(LAWS["uniform"], "marginal", "largest", "mean")
    met |= edges_met(evidence, "conditional", "largest", "mean")
    if weights == "parallel":
        met = {(e, i) for e, _ in met for i in range(N) if i not in e}
    asked, given = all_queries()
    ranks = factorization.ranks(query=asked, given=given)
    expected = is_trained(ranks, met)
    assert torch.equal(factorization.meets(ranks, False), expected)
    assert bool(expected.all()) == (weights == "parallel") == factorization.meets_all(False)


@pytest.mark.parametrize(("query", "protocol", "weighting"), KINDS)
@pytest.mark.parametrize("law", LAWS)
def test_closed_forms_and_lists_agree_with_the_table(law, query, protocol, weighting):
    settings = {"query": query, "protocol": protocol, "path_weighting": weighting}
    table = TabulatedSupport(induced_edge_law(LAWS[law], ORDER, **settings))
    kind = ListedSupport if law == "listed" else CardinalitySupport
    support = kind(LAWS[law], ORDER, query, protocol, weighting == "last")
    assert torch.equal(support.edges(all_masks(N)), table.edges(all_masks(N)))
    for whole in ("every_mask", "every_edge"):
        assert not getattr(support, whole) or getattr(table, whole)
    asked, given = all_queries()
    ranks = MaskTuned(LAWS["uniform"], ORDER, protocol=protocol).ranks(query=asked, given=given)
    assert not (support.draws(ranks) & ~is_trained(ranks, edges_met(LAWS[law], query, protocol, weighting))).any()
    edges = table.edges(all_masks(N))
    assert table.every_mask == bool(edges[:-1].any(1).all())
    assert table.every_edge == bool((edges == ~all_masks(N)).all())


def test_laws_that_do_not_tell_their_masks_give_no_warning():
    class Coins:
        num_variables = 20

        def sample(self, n, generator=None):
            return torch.rand((n, 20), generator=generator) < 0.2

    factorization = MaskTuned(Coins())
    assert factorization.meets_all(False)
    assert factorization.meets(torch.zeros(1, 20).long(), False).all()


@pytest.mark.parametrize("mode", ["random", "first", "most"])
@pytest.mark.parametrize("channels", [1, 2])
def test_staged_activation_meets_what_its_draws_show(mode, channels):
    factorization = StagedModes((3,), {"random": [], "first": [1], "most": [0, 2]}, channels=channels).at(mode)
    n = 3 * channels
    draws = factorization.training_masks(40_000, torch.Generator().manual_seed(0))
    of_mode = draws.mode == factorization.modes.index(mode)
    evidence, weights = draws.evidence[of_mode], draws.weights[of_mode]
    seen = {(tuple(e), i) for e, w in zip(evidence.tolist(), weights, strict=True) for i in w.nonzero()[:, 0].tolist()}
    roles = torch.tensor(list(itertools.product(range(3), repeat=n)))
    ranks = factorization.ranks(query=roles == 1, given=roles == 2, generator=torch.Generator().manual_seed(1))
    expected = torch.ones(len(ranks), dtype=torch.bool)
    for rows, known, targets in edges_of(ranks):
        for row, e, t in zip(rows.tolist(), known.tolist(), targets, strict=True):
            expected[row] &= all((tuple(e), i) in seen for i in t.nonzero()[:, 0].tolist())
    assert torch.equal(factorization.meets(ranks, False), expected)
    assert factorization.meets_all(False) == bool(expected.all())


def small_model(factorization, kind="set"):
    n = factorization.num_variables
    if kind == "path":
        sizes = {"width": 8, "depth": 1, "heads": 1}
        return AnyOrderModel(PathTransformer(num_variables=n, num_features=1, num_params=2, **sizes), Gaussian())
    return AnyOrderModel(MLP(num_variables=n, num_features=1, num_params=2, width=8, depth=1), Gaussian())


def warnings_of(ask):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ask()
    return [str(each.message) for each in caught if each.category is UntrainedQueryWarning]


@pytest.mark.parametrize("kind", ["set", "path"])
@pytest.mark.parametrize("query", ["marginal", "conditional", "both"])
def test_every_query_that_walks_an_edge_never_met_warns_and_no_other(query, kind):
    factorization = MaskTuned(UniformCardinality(N), query=query)
    asked, given = all_queries()
    model = small_model(factorization, kind)
    right = factorization.meets(factorization.ranks(query=asked, given=given), kind == "path")
    for q, g, fine in zip(asked, given, right.tolist(), strict=True):
        model._watch = type(model._watch)()
        x = torch.zeros(1, N)
        assert len(warnings_of(lambda: model.log_prob(x, query=q, given=g, factorization=factorization))) == (not fine)  # noqa: B023
    rest = factorization.meets(factorization.ranks(query=~given, given=given), kind == "path")
    for g, fine in zip(given.unique(dim=0), (rest[(given == g).all(1)][0] for g in given.unique(dim=0)), strict=True):
        model._watch = type(model._watch)()
        assert len(warnings_of(lambda: model.sample(x, given=g, factorization=factorization))) == (not fine)  # noqa: B023


def test_the_warning_comes_once_and_names_the_edge_and_the_remedy():
    factorization = MaskTuned(UniformCardinality(N))
    model, given = small_model(factorization), torch.arange(N) == N - 1
    masks = {"query": ~given, "given": given, "factorization": factorization}
    messages = warnings_of(lambda: [model.log_prob(torch.zeros(3, N), **masks) for _ in range(3)])
    assert len(messages) == 1
    assert "p(x0 | x4)" in messages[0]
    assert "query='both'" in messages[0]
    assert not warnings_of(lambda: pickle.loads(pickle.dumps(model)).log_prob(torch.zeros(3, N), **masks))


def test_the_warning_points_at_the_line_that_asks():
    factorization = MaskTuned(UniformCardinality(N))
    x, given = torch.zeros(1, N), torch.arange(N) == N - 1
    asks = (
        lambda model: model.log_prob(x, query=~given, given=given, factorization=factorization),
        lambda model: model.sample(x, given=given, factorization=factorization),
        lambda model: model.conditionals(x, evidence=given, factorization=factorization),
    )
    for ask in asks:
        with pytest.warns(UntrainedQueryWarning) as caught:
            ask(small_model(factorization))
        assert caught[0].filename == __file__


def test_rows_with_masks_of_their_own_are_all_looked_at():
    factorization = MaskTuned(UniformCardinality(N))
    query, given = torch.zeros(2, 200, N, dtype=torch.bool)
    query[:, 1], query[137, 2], given[137, 4] = True, True, True
    query[137, 1] = False
    x = torch.zeros(200, N)
    ask = small_model(factorization).log_prob
    assert len(warnings_of(lambda: ask(x, query=query, given=given, factorization=factorization))) == 1
    clean = small_model(factorization).log_prob
    assert not warnings_of(lambda: clean(x, query=query & ~given.any(1, True), factorization=factorization))


def test_several_steps_at_once_count_as_they_are_walked():
    factorization = MaskTuned(UniformCardinality(N), query="marginal", weights="edge")
    x, nothing = torch.zeros(1, N), torch.zeros(N, dtype=torch.bool)
    one, two = small_model(factorization), small_model(factorization)
    assert not warnings_of(lambda: one.sample(x, given=nothing, factorization=factorization))
    assert not warnings_of(lambda: two.sample(x, given=nothing, factorization=factorization, steps=1))
    given = torch.arange(N) == 1
    merged = small_model(factorization)
    assert warnings_of(lambda: merged.sample(x, given=given, factorization=factorization, steps=1))


def test_random_orders_meet_everything():
    factorization = AnyOrder(N)
    model = small_model(factorization)
    asked, given = all_queries()
    x = torch.zeros(len(asked), N)
    assert not warnings_of(lambda: model.log_prob(x, query=asked, given=given, factorization=factorization))
    assert not model._watch._seen  # nothing was looked at


def test_values_that_are_not_scaled_are_reported_once():
    factorization = AnyOrder(N)
    draws = factorization.training_masks(8, torch.Generator().manual_seed(0))
    x = torch.randn(8, N, generator=torch.Generator().manual_seed(1))
    model = small_model(factorization)
    with pytest.warns(UserWarning, match=r"as large as .*e\+04.*Standardise") as caught:
        model.loss(x * 1e4, draws)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.loss(x * 1e4, draws)
        small_model(factorization).loss(x, draws)
