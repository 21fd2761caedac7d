"""AnyOrderModel over a path network: against enumeration, loops and the chain rule, in float64."""

import math

import pytest
import torch

from mac_policy.core import (
    AnyOrderModel,
    FixedMasks,
    MaskTuned,
    TrainingMasks,
    TrainingQueries,
    UniformCardinality,
    UniformOrder,
)
from mac_policy.core.factorization import whole_path
from mac_policy.core.heads import (
    Bernoulli,
    Categorical,
    DiscretizedLogisticMixture,
    EnergyTilted,
    Gaussian,
    GaussianMixture,
    PixelLogisticMixture,
)
from mac_policy.core.networks import PathTransformer
from tests.core.models import CONTEXT, FACTORIZATIONS, ORDER, PAIRS, K, N, WithRanks, every_value, make_model, mask
from tests.core.path_models import KINDS, make_path_model, step_by_step
from tests.core.test_model import _gaussian_log_prob

pytestmark = pytest.mark.filterwarnings("ignore:this query needs")  # the queries are not what is tested

HEADS = {
    "categorical": Categorical(K),
    "bernoulli": Bernoulli(),
    "gaussian": Gaussian(),
    "mixture": GaussianMixture(3),
    "logistic": DiscretizedLogisticMixture(5, 2),
    "energy": EnergyTilted(N, 2, latent_dim=4, hidden=16, num_blocks=1, normaliser="grid"),
}
QUERY, GIVEN = (torch.stack([mask(pair[i]) for pair in PAIRS]) for i in (0, 1))
every_kind = pytest.mark.parametrize("kind", KINDS)


def values(rows, seed=0, num=K):
    return torch.randint(num, (rows, N), generator=torch.Generator().manual_seed(seed)).double()


@pytest.mark.parametrize("name", FACTORIZATIONS)
@pytest.mark.parametrize(("query", "given"), PAIRS)
@every_kind
def test_conditionals_of_any_query_sum_to_one(kind, name, query, given):
    factorization = FACTORIZATIONS[name]
    model = make_path_model(factorization, kind)
    rows = every_value(values(1)[0], mask(query))
    context = torch.randn(1, CONTEXT, dtype=torch.float64).expand(len(rows), -1)
    # The same random path for every row: the path may depend on the masks, never on the values.
    ranks = factorization.ranks(
        query=mask(query)[None], given=mask(given)[None], generator=torch.Generator().manual_seed(2)
    )
    fixed = WithRanks(factorization, ranks)
    with torch.no_grad():
        total = (
            model.log_prob(rows, query=mask(query), given=mask(given), factorization=fixed, context=context).exp().sum()
        )
    assert total.item() == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("name", FACTORIZATIONS)
@pytest.mark.parametrize("head", HEADS)
def test_one_pass_equals_the_step_by_step_computation_with_masks_that_differ_by_row(name, head):
    factorization = FACTORIZATIONS[name]
    for kind, rows_per_pass in zip(KINDS, (1024, 3, 1, 2, 1024, 5), strict=True):
        model = make_path_model(factorization, kind, HEADS[head])
        model.rows_per_pass = rows_per_pass
        x, context = values(len(PAIRS), num=2), torch.randn(len(PAIRS), CONTEXT).double()
        ranks = whole_path(factorization, query=QUERY, given=GIVEN, generator=torch.Generator().manual_seed(4))
        with torch.no_grad():
            fast = model.log_prob(
                x,
                query=QUERY,
                given=GIVEN,
                factorization=factorization,
                context=context,
                generator=torch.Generator().manual_seed(4),
            )
            mode = factorization.path_mode(len(x))
            terms = model.head(step_by_step(model, x, ranks, context, mode)).log_prob(x)
        torch.testing.assert_close(fast, (terms * QUERY).sum(1), atol=1e-9, rtol=1e-9)
        assert fast[1] == fast[2] == 0  # p(nothing) = 1


@every_kind
def test_a_row_takes_one_pass_and_one_without_a_query_none(kind):
    model = make_path_model(FACTORIZATIONS["mac"], kind, context_dim=0)
    passes = []
    model.network.register_forward_hook(lambda module, arguments, out: passes.append(len(out)))
    model.log_prob(values(len(PAIRS)), query=QUERY, given=GIVEN, factorization=FACTORIZATIONS["mac"])
    assert passes == [len(PAIRS) - 2]
    passes.clear()
    model.log_prob(values(2), query=mask("000000"), given=mask("110000"), factorization=FACTORIZATIONS["mac"])
    assert passes == []


@pytest.mark.parametrize("kind", ["causal", "causal-token", "causal-adaptive"])
def test_the_chain_rule_holds_along_the_canonical_path_with_causal_attention(kind):
    factorization = FACTORIZATIONS["mac-permuted"]
    model = make_path_model(factorization, kind, context_dim=0)
    x = values(40)
    for cut in range(N + 1):
        first, second = torch.zeros(N, dtype=torch.bool), torch.zeros(N, dtype=torch.bool)
        first[ORDER[:cut]], second[ORDER[cut:]] = True, True
        whole = model.log_prob(x, query=first | second, factorization=factorization)
        parts = model.log_prob(x, query=first, factorization=factorization)
        parts = parts + model.log_prob(x, query=second, given=first, factorization=factorization)
        torch.testing.assert_close(whole, parts, atol=1e-9, rtol=1e-9)


@every_kind
def test_the_chain_rule_holds_inside_a_query(kind):
    """p(a) of a query (a, b) is the sum of p(a, b) over b, when b comes last on the path."""
    factorization = FACTORIZATIONS["mac"]
    model = make_path_model(factorization, kind, context_dim=0)
    given, first = mask("010010"), mask("101000")
    x = values(5)
    for row in x:
        rows = every_value(row, mask("000101"))
        both = model.log_prob(rows, query=first | mask("000101"), given=given, factorization=factorization).logsumexp(0)
        torch.testing.assert_close(
            both, model.log_prob(row[None], query=first, given=given, factorization=factorization)[0]
        )


@every_kind
def test_values_that_are_neither_given_nor_asked_change_nothing(kind):
    factorization = FACTORIZATIONS["mac"]
    model = make_path_model(factorization, kind, context_dim=0)
    query, given = mask("001100"), mask("100001")
    x = values(5)
    other = torch.where(query | given, x, torch.nan)
    left = model.log_prob(x, query=query, given=given, factorization=factorization)
    assert torch.equal(left, model.log_prob(other, query=query, given=given, factorization=factorization))


@every_kind
def test_conditionals_are_those_of_queries_of_one_variable(kind):
    factorization = FACTORIZATIONS["mac-permuted"]
    model = make_path_model(factorization, kind)
    x, context = values(len(PAIRS)), torch.randn(len(PAIRS), CONTEXT).double()
    found = model.conditionals(
        torch.where(GIVEN, x, torch.nan), evidence=GIVEN, context=context, factorization=factorization
    )
    for i in range(N):
        query = (torch.arange(N) == i) & ~GIVEN
        one = model.log_prob(x, query=query, given=GIVEN, factorization=factorization, context=context)
        torch.testing.assert_close(found.log_prob(x)[:, i][~GIVEN[:, i]], one[~GIVEN[:, i]], atol=1e-9, rtol=1e-9)


def test_conditionals_read_evidence_by_index_unless_a_factorization_says_otherwise():
    model = make_path_model(FACTORIZATIONS["mac"], "causal", context_dim=0)
    x = values(4)
    plain, lexicographic, permuted = (
        model.conditionals(x, evidence=mask("110100"), factorization=f).log_prob(x)
        for f in (None, FACTORIZATIONS["mac"], FACTORIZATIONS["mac-permuted"])
    )
    assert torch.equal(plain, lexicographic)
    assert not torch.allclose(plain, permuted)


def test_random_orders_of_the_evidence_are_drawn_from_the_generator_alone():
    factorization = UniformOrder(N)
    x = values(4)
    for kind, draws in (("causal", True), ("free", False)):
        model, g = make_path_model(factorization, kind, context_dim=0), torch.Generator().manual_seed(2)
        before = torch.random.get_rng_state()
        first, second = (
            model.conditionals(
                x, evidence=mask("110110"), factorization=factorization, generator=g.manual_seed(2)
            ).log_prob(x)
            for _ in range(2)
        )
        assert torch.equal(first, second)
        assert torch.equal(g.get_state(), torch.Generator().manual_seed(2).get_state()) != draws
        assert torch.equal(before, torch.random.get_rng_state())


def test_channels_that_take_turns_are_refused():
    head = PixelLogisticMixture(4, num_components=2, channels=3)
    sizes = {"num_variables": N, "num_features": head.num_features, "num_params": head.num_params}
    with pytest.raises(ValueError, match=r"PixelLogisticMixture draws the channels of a pixel in turns"):
        AnyOrderModel(PathTransformer(**sizes, width=8, depth=1, heads=1), head)


def test_many_orders_average_probabilities_not_logs():
    factorization = UniformOrder(N)
    model = make_path_model(factorization, context_dim=0)
    x, everything, g = values(8), torch.ones(N, dtype=torch.bool), torch.Generator().manual_seed(3)
    singles = [model.log_prob(x, query=everything, factorization=factorization, generator=g) for _ in range(5)]
    averaged = model.log_prob(
        x, query=everything, factorization=factorization, orders=5, generator=torch.Generator().manual_seed(3)
    )
    torch.testing.assert_close(averaged, torch.stack(singles).logsumexp(0) - math.log(5))
    assert not torch.allclose(singles[0], singles[1])


@pytest.mark.parametrize("name", FACTORIZATIONS)
@every_kind
def test_the_loss_is_the_weighted_log_likelihood_along_the_paths(kind, name):
    factorization = FACTORIZATIONS[name]
    model = make_path_model(factorization, kind)
    x, context = values(20), torch.randn(20, CONTEXT).double()
    queries = factorization.training_queries(20, torch.Generator().manual_seed(0))
    with torch.no_grad():
        terms = model.head(step_by_step(model, x, queries.ranks, context, queries.mode)).log_prob(x)
        loss = model.loss(x, queries, context)
    torch.testing.assert_close(loss, -(queries.weights * terms).sum() / 20, atol=1e-9, rtol=1e-6)


def test_the_loss_of_mean_weights_is_the_log_likelihood_divided_by_its_length():
    factorization = MaskTuned(UniformCardinality(N), query="both")
    model = make_path_model(factorization, context_dim=0)
    x, queries = values(20), factorization.training_queries(20, torch.Generator().manual_seed(0))
    log_p = model.log_prob(x, query=queries.query, given=queries.given, factorization=factorization)
    expected = -(log_p / queries.query.sum(1)).mean()
    torch.testing.assert_close(model.loss(x, queries), expected, atol=1e-6, rtol=1e-6)


def test_what_is_seen_may_differ_from_what_is_to_be_predicted():
    model = make_path_model(FACTORIZATIONS["mac"], "free", GaussianMixture(2), context_dim=0)
    x, queries = torch.randn(20, N).double(), FACTORIZATIONS["mac"].training_queries(20)
    assert torch.equal(model.loss(x, queries, evidence_values=x), model.loss(x, queries))
    assert model.loss(x, queries, evidence_values=x + 0.1) != model.loss(x, queries)
    last = queries._replace(weights=(queries.ranks == queries.query.sum(1, keepdim=True) - 1).float())
    shifted = torch.where(last.weights > 0, x + 9, x)
    assert torch.equal(
        model.loss(x, last, evidence_values=shifted), model.loss(x, last)
    )  # a value never predicts itself
    assert model.loss(shifted, last, evidence_values=x) != model.loss(x, last)


@every_kind
def test_missing_values_are_never_seen_never_asked_and_may_be_nan(kind):
    factorization = MaskTuned(UniformCardinality(N))
    model = make_path_model(factorization, kind, GaussianMixture(2), context_dim=0)
    missing = torch.rand(30, N, generator=torch.Generator().manual_seed(0)) < 0.3
    x = torch.where(missing, torch.nan, torch.randn(30, N).double())
    queries = factorization.training_queries(30, torch.Generator().manual_seed(0))
    hidden = TrainingQueries(queries.ranks.masked_fill(missing, N), queries.weights * ~missing)
    loss = model.loss(x, queries, missing=missing)
    torch.testing.assert_close(loss, model.loss(x.nan_to_num(7.0), hidden))
    loss.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    given = mask("100000") & ~missing
    query = ~missing & ~given
    log_p = model.log_prob(x, query=query, given=given, factorization=factorization, missing=missing)
    assert log_p.isfinite().all()
    assert torch.equal(log_p, model.log_prob(x.nan_to_num(3.0), query=query, given=given, factorization=factorization))
    filled = model.sample(x, given=given, factorization=factorization, missing=missing)
    assert filled[missing].isnan().all()
    assert filled[~missing].isfinite().all()


@pytest.mark.parametrize("head", HEADS)
@every_kind
def test_every_head_trains_and_answers_with_a_gradient_for_every_parameter(kind, head):
    factorization = MaskTuned(UniformCardinality(N), query="both")
    model = make_path_model(factorization, kind, HEADS[head])
    x, context = values(32, num=2), torch.randn(32, CONTEXT).double()
    g = torch.Generator().manual_seed(0)
    model.zero_grad()
    model.loss(x, factorization.training_queries(32, g), context, generator=g).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name
    arguments = {"factorization": factorization, "context": context, "generator": g}
    assert model.log_prob(x, query=mask("111000"), given=mask("000111"), **arguments).isfinite().all()
    drawn = model.sample(x, given=mask("110000"), **arguments)
    model.head.check(drawn, torch.ones_like(drawn, dtype=torch.bool))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_probability_of_nothing_has_the_type_of_any_other(dtype):
    factorization = MaskTuned(UniformCardinality(N))
    model = make_path_model(factorization, context_dim=0).to(dtype)
    for query in (mask("000000"), mask("100000")):
        assert model.log_prob(torch.zeros(2, N), query=query, factorization=factorization).dtype == dtype


@pytest.mark.parametrize("given", ["free", "causal"])
def test_a_gaussian_target_is_recovered_for_every_query(given):
    """Trained on a correlated Gaussian, p(x_u | x_o) comes close to the closed form for unseen query masks."""
    n, g = 4, torch.Generator().manual_seed(0)
    factor = torch.tril(torch.full((n, n), 0.6)) + 0.4 * torch.eye(n)
    covariance = (factor @ factor.T).double()
    factorization = MaskTuned(UniformCardinality(n), query="both")
    torch.manual_seed(0)
    head = Gaussian()
    sizes = {"num_variables": n, "num_features": head.num_features, "num_params": head.num_params}
    model = AnyOrderModel(PathTransformer(**sizes, width=32, depth=2, heads=2, given=given), head)
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 400)
    for _ in range(400):
        x = torch.randn((128, n), generator=g) @ factor.T
        optimiser.zero_grad()
        model.loss(x, factorization.training_queries(128, g)).backward()
        optimiser.step()
        schedule.step()
    x = torch.randn((4000, n), generator=g) @ factor.T
    for query, seen in [("1111", "0000"), ("0010", "1100"), ("0110", "0001"), ("1000", "0000"), ("0001", "0100")]:
        u, o = mask(query), mask(seen)
        exact = _gaussian_log_prob(x.double(), covariance, u | o) - _gaussian_log_prob(x.double(), covariance, o)
        with torch.no_grad():
            found = model.log_prob(x, query=u, given=o, factorization=factorization)
        gap = (exact - found).mean().item()  # a KL divergence: not negative but for sampling error
        assert -0.02 < gap < 0.08, (query, seen, gap)


MODEL = make_path_model(UniformOrder(N), context_dim=0)
X = torch.zeros(2, N).double()
NAN = torch.full((2, N), torch.nan).double()
ANY = {"factorization": UniformOrder(N)}
QUERIES = MaskTuned(FixedMasks(mask("111000")[None]), query="conditional").training_queries(2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: MODEL.log_prob(X, query=mask("110000"), given=mask("010000"), **ANY),
            "variable 1 of row 0 is in both",
        ),
        (
            lambda: MODEL.log_prob(X, query=mask("11000"), **ANY),
            r"query must have shape \(2, 6\) or \(6,\), got \(5,\)",
        ),
        (lambda: MODEL.log_prob(NAN, query=mask("110000"), **ANY), "nan"),
        (lambda: MODEL.log_prob(X, query=mask("110000"), factorization=UniformOrder(5)), "over 5 variables.*over 6"),
        (lambda: MODEL.log_prob(X, query=mask("110000"), missing=mask("100000"), **ANY), "missing and query"),
        (
            lambda: MODEL.sample(X, given=mask("110000"), temperature=0.0, **ANY),
            "temperature must be .* above 0, got 0.0",
        ),
        (lambda: MODEL.sample(X, given=mask("110000"), steps=0, **ANY), "steps must be .* at least 1, got 0"),
        (lambda: MODEL.sample(NAN, given=mask("110000"), **ANY), "nan"),
        (lambda: MODEL.conditionals(NAN, evidence=mask("100000")), "nan"),
        (lambda: MODEL.loss(NAN, QUERIES), "nan"),
        (lambda: MODEL.loss(X, UniformOrder(N).training_masks(2)),
         r"path network trains on TrainingQueries.*training_queries\(n\).*got TrainingMasks"),
        (lambda: make_model(UniformOrder(N), context_dim=0).loss(X, QUERIES),
         r"set network trains on TrainingMasks.*training_masks\(n\).*got TrainingQueries"),
        (lambda: MODEL.loss(X, QUERIES._replace(ranks=QUERIES.ranks[:1])), r"ranks must be .* \(2, 6\).*got \(1, 6\)"),
        (lambda: MODEL.loss(X, QUERIES._replace(ranks=QUERIES.ranks.double())), "torch.long, got .*float64"),
        (lambda: MODEL.loss(X, QUERIES._replace(weights=QUERIES.weights[:1])), r"weights must be .* 2 of x, got \(1,"),
        (lambda: MODEL.loss(X, QUERIES._replace(weights=-QUERIES.weights)), r"weights\[0, 3\] is -0.33.* at least 0"),
        (lambda: MODEL.loss(X, QUERIES._replace(weights=QUERIES.weights + 1)),
         r"weights\[0, 0\] is 1.0: .* 0 where nothing is queried"),
        (lambda: MODEL.loss(X, QUERIES, missing=mask("10000")), "missing must have shape"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_masks_of_a_step_are_not_queries():
    assert not isinstance(UniformOrder(N).training_masks(1), TrainingQueries)
    assert not isinstance(UniformOrder(N).training_queries(1), TrainingMasks)
