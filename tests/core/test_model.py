"""AnyOrderModel against enumeration and against loops written here, in float64."""

import math

import pytest
import torch

from mac_policy.core import AnyOrderModel, FixedMasks, MaskTuned, TrainingMasks, UniformCardinality, UniformOrder
from mac_policy.core.heads import Bernoulli, Categorical, EnergyTilted, Gaussian, GaussianMixture
from mac_policy.core.networks import MLP
from tests.core.models import (
    CONTEXT,
    FACTORIZATIONS,
    ORDER,
    PAIRS,
    STAGED,
    K,
    N,
    WithRanks,
    every_value,
    make_model,
    mask,
    slow_log_prob,
)

pytestmark = pytest.mark.filterwarnings("ignore:this query needs")  # the queries are not what is tested


@pytest.mark.parametrize("name", FACTORIZATIONS)
@pytest.mark.parametrize(("query", "given"), PAIRS)
def test_conditionals_of_any_query_sum_to_one(name, query, given):
    factorization = FACTORIZATIONS[name]
    model = make_model(factorization)
    x = torch.randint(0, K, (N,), generator=torch.Generator().manual_seed(1)).double()
    rows = every_value(x, mask(query))
    context = torch.randn(1, CONTEXT, dtype=torch.float64).expand(len(rows), -1)
    total = 0.0
    # The same random path for every row: the path may depend on the masks, never on the values.
    ranks = factorization.ranks(
        query=mask(query)[None], given=mask(given)[None], generator=torch.Generator().manual_seed(2)
    )
    fixed = WithRanks(factorization, ranks)
    total = model.log_prob(rows, query=mask(query), given=mask(given), factorization=fixed, context=context).exp().sum()
    assert total.item() == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("name", FACTORIZATIONS)
@pytest.mark.parametrize("rows_per_pass", [1024, 7])
def test_log_prob_equals_a_plain_loop_with_masks_that_differ_by_row(name, rows_per_pass):
    factorization = FACTORIZATIONS[name]
    model = make_model(factorization)
    model.rows_per_pass = rows_per_pass
    query, given = (torch.stack([mask(pair[i]) for pair in PAIRS]) for i in (0, 1))
    x = torch.randint(0, K, (len(PAIRS), N)).double()
    context = torch.randn(len(PAIRS), CONTEXT).double()
    ranks = factorization.ranks(query=query, given=given, generator=torch.Generator().manual_seed(4))
    fast = model.log_prob(
        x,
        query=query,
        given=given,
        factorization=factorization,
        context=context,
        generator=torch.Generator().manual_seed(4),
    )
    mode = factorization.path_mode(1)
    slow = [slow_log_prob(model, x[r], query[r], ranks[r], context[r : r + 1], mode) for r in range(len(PAIRS))]
    torch.testing.assert_close(fast, torch.tensor(slow, dtype=torch.float64), atol=1e-9, rtol=1e-9)
    assert fast[1] == fast[2] == 0  # p(nothing) = 1


def test_one_row_at_a_time_gives_the_same():
    factorization = FACTORIZATIONS["mac-permuted"]
    model = make_model(factorization, context_dim=0)
    query, given = (torch.stack([mask(pair[i]) for pair in PAIRS]) for i in (0, 1))
    x = torch.randint(0, K, (len(PAIRS), N)).double()
    together = model.log_prob(x, query=query, given=given, factorization=factorization)
    alone = [
        model.log_prob(x[r : r + 1], query=query[r : r + 1], given=given[r : r + 1], factorization=factorization)
        for r in range(len(PAIRS))
    ]
    torch.testing.assert_close(together, torch.cat(alone), atol=1e-12, rtol=1e-12)


def test_the_chain_rule_holds_along_the_canonical_path():
    """log p(first a, then b) = log p(a) + log p(b | a) when b comes after a in canonical order."""
    factorization = FACTORIZATIONS["mac-permuted"]
    model = make_model(factorization, context_dim=0)
    x = torch.randint(0, K, (40, N)).double()
    for cut in range(N + 1):
        first, second = torch.zeros(N, dtype=torch.bool), torch.zeros(N, dtype=torch.bool)
        first[ORDER[:cut]], second[ORDER[cut:]] = True, True
        whole = model.log_prob(x, query=first | second, factorization=factorization)
        parts = model.log_prob(x, query=first, factorization=factorization)
        parts = parts + model.log_prob(x, query=second, given=first, factorization=factorization)
        torch.testing.assert_close(whole, parts, atol=1e-9, rtol=1e-9)


def test_values_that_are_neither_given_nor_asked_change_nothing():
    factorization = FACTORIZATIONS["mac"]
    model = make_model(factorization, context_dim=0)
    query, given = mask("001100"), mask("100001")
    x = torch.randint(0, K, (5, N)).double()
    other = torch.where(query | given, x, torch.nan)
    left = model.log_prob(x, query=query, given=given, factorization=factorization)
    assert torch.equal(left, model.log_prob(other, query=query, given=given, factorization=factorization))


def test_many_orders_average_probabilities_not_logs():
    factorization = UniformOrder(N)
    model = make_model(factorization, context_dim=0)
    x = torch.randint(0, K, (8, N)).double()
    everything = torch.ones(N, dtype=torch.bool)
    g = torch.Generator().manual_seed(3)
    singles = [model.log_prob(x, query=everything, factorization=factorization, generator=g) for _ in range(5)]
    averaged = model.log_prob(
        x, query=everything, factorization=factorization, orders=5, generator=torch.Generator().manual_seed(3)
    )
    torch.testing.assert_close(averaged, torch.stack(singles).logsumexp(0) - math.log(5))
    assert not torch.allclose(singles[0], singles[1])


def test_only_the_steps_that_some_row_needs_are_evaluated():
    factorization = FACTORIZATIONS["mac"]
    model = make_model(factorization, context_dim=0)
    seen = []
    forward = model.network.forward
    model.network.forward = lambda features, *rest: (seen.append(len(features)), forward(features, *rest))[1]
    query = torch.stack([mask("110000"), mask("000000"), mask("111111"), mask("000001")])
    model.log_prob(torch.zeros(4, N).double(), query=query, factorization=factorization)
    assert sum(seen) == 2 + 0 + 6 + 1
    seen.clear()
    model.log_prob(torch.zeros(4, N).double(), query=query & False, factorization=factorization)
    assert seen == []


def test_loss_is_the_weighted_negative_log_likelihood():
    factorization = STAGED
    model = make_model(factorization)
    x, context = torch.randint(0, K, (20, N)).double(), torch.randn(20, CONTEXT).double()
    masks = factorization.training_masks(20, torch.Generator().manual_seed(0))
    expected = 0.0
    for r in range(20):
        row = model.conditionals(
            x[r : r + 1], evidence=masks.evidence[r], context=context[r : r + 1], mode=masks.mode[r : r + 1]
        )
        expected -= (masks.weights[r] * row.log_prob(x[r : r + 1])[0]).sum().item() / 20
    assert model.loss(x, masks, context).item() == pytest.approx(expected, rel=1e-7)


def test_loss_of_all_training_masks_is_the_expected_path_length_mean():
    """Summed over the exact edge law, the loss is the mean over queries of - log p(x_e) / |e|."""
    from mac_policy.core import induced_edge_law
    from mac_policy.core.masks import all_masks

    laws = UniformCardinality(4)
    model = make_model(UniformOrder(4), context_dim=0)
    edges, masks = induced_edge_law(laws), all_masks(4)
    x = torch.tensor([[0.0, 2.0, 1.0, 1.0]]).double().expand(16, 4)
    loss = model.loss(x, TrainingMasks(masks, edges)) * 16
    log_p = model.log_prob(x, query=masks, factorization=MaskTuned(laws))
    expected = -(laws.log_prob(masks).exp() * log_p / masks.sum(1).clamp(min=1)).sum()
    torch.testing.assert_close(loss, expected)


@pytest.fixture
def energetic_model():
    """Its variables have energies that differ, so that an energy of the wrong variable shows."""
    head = EnergyTilted(N, 2, latent_dim=4, hidden=16, num_blocks=1, normaliser="grid")
    model = make_model(UniformOrder(N), head, context_dim=0)
    with torch.no_grad():
        head.energy.variable.weight *= 5
        head.energy.output.weight *= 30
    return model


def test_the_loss_takes_the_energy_of_each_variable(energetic_model):
    g = torch.Generator().manual_seed(0)
    x, masks = torch.randn(20, N, generator=g).double(), UniformOrder(N).training_masks(20, g)
    conditional = energetic_model.conditionals(x, evidence=masks.evidence)
    each = -(conditional.log_prob(x) + conditional.proposal.log_prob(x))
    torch.testing.assert_close(energetic_model.loss(x, masks), (masks.weights * each).sum() / 20)


def test_log_prob_takes_the_energy_of_each_variable(energetic_model):
    x, query, given = torch.randn(1, N).double(), mask("101100"), mask("010000")
    order = MaskTuned(UniformCardinality(N), ORDER)
    ranks = order.ranks(query=query[None], given=given[None])[0]
    slow = slow_log_prob(energetic_model, x[0], query, ranks, None, None)
    fast = energetic_model.log_prob(x, query=query, given=given, factorization=order)
    assert fast.item() == pytest.approx(slow, abs=1e-9)


def test_estimated_conditionals_depend_on_the_generator_alone():
    model = make_model(UniformOrder(N), EnergyTilted(N, 2, latent_dim=4, hidden=16, num_blocks=1), context_dim=0)
    x = torch.zeros(3, N).double()
    one, same, other = (
        model.conditionals(x, evidence=mask("110000"), generator=torch.Generator().manual_seed(seed)).points
        for seed in (1, 1, 2)
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_probability_of_nothing_has_the_type_of_any_other(dtype):
    factorization = MaskTuned(UniformCardinality(N))
    model = make_model(factorization, context_dim=0).to(dtype)
    x = torch.zeros(2, N)
    for query in (mask("000000"), mask("100000")):
        assert model.log_prob(x, query=query, factorization=factorization).dtype == dtype


def test_missing_values_are_never_seen_never_asked_and_may_be_nan():
    factorization = MaskTuned(UniformCardinality(N))
    model = make_model(factorization, GaussianMixture(2), context_dim=0)
    missing = mask("010010")
    x = torch.where(missing, torch.nan, torch.randn(30, N).double())
    masks = factorization.training_masks(30, torch.Generator().manual_seed(0))
    hidden = TrainingMasks(masks.evidence & ~missing, masks.weights * ~missing)
    loss = model.loss(x, masks, missing=missing)
    torch.testing.assert_close(loss, model.loss(x.nan_to_num(), hidden))
    loss.backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())
    log_p = model.log_prob(x, query=~missing, factorization=factorization, missing=missing)
    assert log_p.isfinite().all()
    filled = model.sample(x, given=mask("100000"), factorization=factorization, missing=missing)
    assert filled[:, missing].isnan().all()
    assert filled[:, ~missing].isfinite().all()


@pytest.mark.parametrize("head", [Categorical(K), Bernoulli(), Gaussian(), GaussianMixture(4), EnergyTilted(N)])
def test_every_head_trains_and_answers(head):
    factorization = MaskTuned(UniformCardinality(N), weights="edge")
    model = make_model(factorization, head, context_dim=0)
    x = torch.randint(0, 2, (16, N)).double()
    g = torch.Generator().manual_seed(0)
    loss = model.loss(x, factorization.training_masks(16, g), generator=g)
    loss.backward()
    assert any(p.grad.abs().sum() > 0 for p in model.parameters())
    assert (
        model.log_prob(x, query=mask("111000"), given=mask("000111"), factorization=factorization, generator=g)
        .isfinite()
        .all()
    )
    assert model.sample(x, given=mask("110000"), factorization=factorization, generator=g).isfinite().all()


def test_a_gaussian_target_is_recovered_for_every_query():
    """Trained on a correlated Gaussian, p(x_u | x_o) comes close to the closed form for unseen query masks."""
    n, g = 4, torch.Generator().manual_seed(0)
    factor = torch.tril(torch.full((n, n), 0.6)) + 0.4 * torch.eye(n)
    covariance = (factor @ factor.T).double()
    factorization = MaskTuned(UniformCardinality(n), query="both")
    torch.manual_seed(0)
    head = GaussianMixture(2)
    model = AnyOrderModel(
        MLP(num_variables=n, num_features=head.num_features, num_params=head.num_params, width=64, depth=2), head
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 1200)
    for _ in range(1200):
        x = torch.randn((256, n), generator=g) @ factor.T
        optimiser.zero_grad()
        model.loss(x, factorization.training_masks(256, g)).backward()
        optimiser.step()
        schedule.step()
    x = torch.randn((4000, n), generator=g) @ factor.T
    for query, given in [("1111", "0000"), ("0010", "1100"), ("0110", "0001"), ("1000", "0000")]:
        u, o = mask(query), mask(given)
        exact = _gaussian_log_prob(x.double(), covariance, u | o) - _gaussian_log_prob(x.double(), covariance, o)
        with torch.no_grad():
            found = model.log_prob(x, query=u, given=o, factorization=factorization)
        gap = (exact - found).mean().item()  # a KL divergence: not negative but for sampling error
        assert -0.02 < gap < 0.08, (query, given, gap)


def _gaussian_log_prob(x, covariance, chosen):
    if not chosen.any():
        return torch.zeros(len(x), dtype=torch.float64)
    part = covariance[chosen][:, chosen]
    law = torch.distributions.MultivariateNormal(torch.zeros(len(part)).double(), part)
    return law.log_prob(x[:, chosen])


def test_masks_of_operators_give_a_model_for_just_those_queries():
    operators = torch.stack([mask("110000"), mask("000011")])
    factorization = MaskTuned(FixedMasks(operators), query="conditional", cardinality_reweighting=False)
    evidence = factorization.training_masks(500, torch.Generator().manual_seed(0)).evidence
    held = evidence[:, None] & operators
    assert (held == operators).all(-1).any(-1).all()


@pytest.mark.parametrize("name", FACTORIZATIONS)
def test_log_prob_with_a_context_for_several_rows(name):
    factorization = FACTORIZATIONS[name]
    model = make_model(factorization)
    x, context = torch.randint(0, K, (6, N)).double(), torch.randn(2, CONTEXT).double()
    query = torch.rand(6, N, generator=torch.Generator().manual_seed(0)) < 0.5
    random = [torch.Generator().manual_seed(1) for _ in range(2)]
    shared = model.log_prob(
        x, query=query, factorization=factorization, context=context, rows_per_context=3, generator=random[0]
    )
    own = model.log_prob(
        x, query=query, factorization=factorization, context=context.repeat_interleave(3, 0), generator=random[1]
    )
    torch.testing.assert_close(shared, own)
