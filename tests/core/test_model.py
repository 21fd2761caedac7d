"""AnyOrderModel against enumeration and against loops written here, in float64."""

import itertools
import math

import pytest
import torch

from mac_policy.core import (
    AnyOrderModel,
    FixedMasks,
    MaskTuned,
    StagedModes,
    TrainingMasks,
    UniformCardinality,
    UniformOrder,
)
from mac_policy.core.heads import Bernoulli, Categorical, EnergyTilted, Gaussian, GaussianMixture
from mac_policy.core.networks import MLP
from tests.core.test_masks import chi_square_p

N, K, CONTEXT = 6, 3, 2
ORDER = torch.tensor([3, 0, 5, 1, 4, 2])
STAGED = StagedModes((2, 3))
FACTORIZATIONS = {
    "uniform": UniformOrder(N),
    "mac": MaskTuned(UniformCardinality(N)),
    "mac-permuted": MaskTuned(UniformCardinality(N), ORDER, query="both", weights="edge"),
    "mac-random": MaskTuned(UniformCardinality(N), protocol="random"),
    "staged": STAGED,
    "staged-interior": StagedModes((2, 3), {"random": [], "some first": [0, 4]}).at("some first"),
    "channels": StagedModes((3,), channels=2),
}
PAIRS = [  # (query, given), lowest index first
    ("111111", "000000"),
    ("000000", "000000"),
    ("000000", "111111"),
    ("000100", "000000"),
    ("100000", "011111"),
    ("101010", "010101"),
    ("001100", "100001"),
]


def mask(bits: str) -> torch.Tensor:
    return torch.tensor([bit == "1" for bit in bits])


def make_model(factorization, head=None, context_dim=CONTEXT, seed=0) -> AnyOrderModel:
    torch.manual_seed(seed)
    head = head or Categorical(K)
    network = MLP(
        num_variables=factorization.num_variables,
        num_features=head.num_features,
        num_params=head.num_params,
        context_dim=context_dim,
        num_modes=len(getattr(factorization, "modes", ())),
        width=24,
        depth=2,
    )
    for parameter in network.parameters():  # far from uniform, so that a wrong mask shows
        parameter.data = torch.randn_like(parameter) / 2
    return AnyOrderModel(network, head).double()


def slow_log_prob(model, x, query, ranks, context, mode):
    """One row, one step and one variable at a time."""
    total = 0.0
    for step in range(N):
        evidence = ranks < step
        for i in range(N):
            if query[i] and ranks[i] == step:
                row = model.conditionals(x[None], evidence[None], context, mode)
                total += row.log_prob(x[None])[0, i].item()
    return total


def every_value(x: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """x (N,) with every combination of values at the queried places."""
    places = query.nonzero()[:, 0].tolist()
    rows = x.repeat(K ** len(places), 1)
    if places:
        rows[:, places] = torch.tensor(list(itertools.product(range(K), repeat=len(places))), dtype=x.dtype)
    return rows


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
    ranks = factorization.ranks(mask(query)[None], mask(given)[None], torch.Generator().manual_seed(2))
    fixed = _WithRanks(factorization, ranks)
    total = model.log_prob(rows, mask(query), mask(given), factorization=fixed, context=context).exp().sum()
    assert total.item() == pytest.approx(1, abs=1e-9)


class _WithRanks:
    """A factorisation whose random path has been drawn already."""

    deterministic = False

    def __init__(self, factorization, ranks):
        self.num_variables, self.path_mode, self._ranks = factorization.num_variables, factorization.path_mode, ranks

    def ranks(self, query, given, generator=None):
        return self._ranks.expand(query.shape)


@pytest.mark.parametrize("name", FACTORIZATIONS)
@pytest.mark.parametrize("rows_per_pass", [1024, 7])
def test_log_prob_equals_a_plain_loop_with_masks_that_differ_by_row(name, rows_per_pass):
    factorization = FACTORIZATIONS[name]
    model = make_model(factorization)
    model.rows_per_pass = rows_per_pass
    query, given = (torch.stack([mask(pair[i]) for pair in PAIRS]) for i in (0, 1))
    x = torch.randint(0, K, (len(PAIRS), N)).double()
    context = torch.randn(len(PAIRS), CONTEXT).double()
    ranks = factorization.ranks(query, given, torch.Generator().manual_seed(4))
    fast = model.log_prob(
        x, query, given, factorization=factorization, context=context, generator=torch.Generator().manual_seed(4)
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
    together = model.log_prob(x, query, given, factorization=factorization)
    alone = [
        model.log_prob(x[r : r + 1], query[r : r + 1], given[r : r + 1], factorization=factorization)
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
        whole = model.log_prob(x, first | second, factorization=factorization)
        parts = model.log_prob(x, first, factorization=factorization)
        parts = parts + model.log_prob(x, second, first, factorization=factorization)
        torch.testing.assert_close(whole, parts, atol=1e-9, rtol=1e-9)


def test_values_that_are_neither_given_nor_asked_change_nothing():
    factorization = FACTORIZATIONS["mac"]
    model = make_model(factorization, context_dim=0)
    query, given = mask("001100"), mask("100001")
    x = torch.randint(0, K, (5, N)).double()
    other = torch.where(query | given, x, torch.nan)
    left = model.log_prob(x, query, given, factorization=factorization)
    assert torch.equal(left, model.log_prob(other, query, given, factorization=factorization))


def test_many_orders_average_probabilities_not_logs():
    factorization = UniformOrder(N)
    model = make_model(factorization, context_dim=0)
    x = torch.randint(0, K, (8, N)).double()
    everything = torch.ones(N, dtype=torch.bool)
    g = torch.Generator().manual_seed(3)
    singles = [model.log_prob(x, everything, factorization=factorization, generator=g) for _ in range(5)]
    averaged = model.log_prob(
        x, everything, factorization=factorization, orders=5, generator=torch.Generator().manual_seed(3)
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
    model.log_prob(torch.zeros(4, N).double(), query, factorization=factorization)
    assert sum(seen) == 2 + 0 + 6 + 1
    seen.clear()
    model.log_prob(torch.zeros(4, N).double(), query & False, factorization=factorization)
    assert seen == []


@pytest.mark.parametrize("name", ["uniform", "mac", "mac-permuted", "staged", "channels"])
def test_samples_follow_log_prob_and_leave_what_is_given(name):
    factorization = FACTORIZATIONS[name]
    model = make_model(factorization, context_dim=0)
    given = mask("010101")
    x = torch.tensor([1.0, 2.0, 1.0, 0.0, 2.0, 1.0]).double()
    rows = every_value(x, ~given)
    paths = [torch.tensor(path) for path in itertools.permutations(range(3))]
    if factorization.deterministic:
        paths = [factorization.ranks(~given[None], given[None])[0, ~given]]
    law = sum(_law_along(model, factorization, rows, given, path) for path in paths) / len(paths)
    drawn = model.sample(
        x[None].expand(100_000, N), given, factorization=factorization, generator=torch.Generator().manual_seed(5)
    )
    assert torch.equal(drawn[:, given], x[given].expand(100_000, 3))
    codes = (drawn[:, ~given] * torch.tensor([9.0, 3, 1])).sum(1).long()
    assert chi_square_p(torch.bincount(codes, minlength=27), law) > 1e-4


def _law_along(model, factorization, rows, given, path):
    """The probability of every row when the three queried variables are answered in this order."""
    ranks = torch.full((1, N), -1)
    ranks[0, ~given] = path
    return model.log_prob(rows, ~given, given, factorization=_WithRanks(factorization, ranks)).exp().detach()


def test_sampling_is_repeatable_and_given_values_come_back_bit_identical():
    factorization = MaskTuned(UniformCardinality(N))
    model = make_model(factorization, GaussianMixture(3), context_dim=0)
    x = torch.randn(50, N, dtype=torch.float64)
    given = torch.rand(50, N) < 0.5
    kwargs = {"factorization": factorization}
    first, second = (model.sample(x, given, generator=torch.Generator().manual_seed(1), **kwargs) for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(first[given], x[given])
    assert not torch.equal(first[~given], x[~given])
    several = model.sample(x, given, num_samples=3, generator=torch.Generator().manual_seed(1), **kwargs)
    assert several.shape == (3, 50, N)
    assert torch.equal(several[:, given], x[given].expand(3, -1))
    assert not torch.equal(several[0], several[1])
    everything = torch.ones(N, dtype=torch.bool)
    assert torch.equal(model.sample(x, everything, **kwargs), x)


def test_unseen_values_may_be_nan_when_sampling():
    factorization = MaskTuned(UniformCardinality(N))
    model = make_model(factorization, GaussianMixture(3), context_dim=0)
    given = mask("100100")
    x = torch.where(given, torch.ones(4, N).double(), torch.nan)
    assert model.sample(x, given, factorization=factorization).isfinite().all()


def test_fewer_steps_take_fewer_passes_and_low_temperature_finds_the_mode():
    factorization = MaskTuned(UniformCardinality(N))
    model = make_model(factorization, context_dim=0)
    passes = []
    forward = model.network.forward
    model.network.forward = lambda *a: (passes.append(1), forward(*a))[1]
    nothing = torch.zeros(N, dtype=torch.bool)
    for steps, expected in [(1, 1), (2, 2), (4, 4), (6, 6), (99, 6), (None, 6)]:
        passes.clear()
        model.sample(torch.zeros(5, N).double(), nothing, factorization=factorization, steps=steps)
        assert len(passes) == expected
    cold = model.sample(torch.zeros(1, N).double(), nothing, factorization=factorization, temperature=1e-4)
    greedy = torch.zeros(1, N).double()
    for i in range(N):
        greedy[0, i] = model.conditionals(greedy, (torch.arange(N) < i)).mode[0, i]
    assert torch.equal(cold, greedy)


def test_one_step_draws_all_from_the_conditionals_given_the_evidence():
    factorization = MaskTuned(UniformCardinality(N))
    model = make_model(factorization, context_dim=0)
    x = torch.zeros(60_000, N).double()
    drawn = model.sample(
        x, mask("100000"), factorization=factorization, steps=1, generator=torch.Generator().manual_seed(0)
    )
    points = torch.arange(K, dtype=torch.float64)
    exact = model.conditionals(x[:1], mask("100000")).log_prob_grid(points)[0].exp().detach()
    for i in range(1, N):
        assert chi_square_p(torch.bincount(drawn[:, i].long(), minlength=K), exact[i]) > 1e-4


def test_loss_is_the_weighted_negative_log_likelihood():
    factorization = STAGED
    model = make_model(factorization)
    x, context = torch.randint(0, K, (20, N)).double(), torch.randn(20, CONTEXT).double()
    masks = factorization.training_masks(20, torch.Generator().manual_seed(0))
    expected = 0.0
    for r in range(20):
        row = model.conditionals(x[r : r + 1], masks.evidence[r], context[r : r + 1], masks.mode[r : r + 1])
        expected -= float((masks.weights[r] * row.log_prob(x[r : r + 1])[0]).sum()) / 20
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
    log_p = model.log_prob(x, masks, factorization=MaskTuned(laws))
    expected = -(laws.log_prob(masks).exp() * log_p / masks.sum(1).clamp(min=1)).sum()
    torch.testing.assert_close(loss, expected)


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
    log_p = model.log_prob(x, ~missing, factorization=factorization, missing=missing)
    assert log_p.isfinite().all()
    filled = model.sample(x, mask("100000"), factorization=factorization, missing=missing)
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
    assert model.log_prob(x, mask("111000"), mask("000111"), factorization=factorization, generator=g).isfinite().all()
    assert model.sample(x, mask("110000"), factorization=factorization, generator=g).isfinite().all()


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
            found = model.log_prob(x, u, o, factorization=factorization)
        gap = (exact - found).mean().item()  # a KL divergence: not negative but for sampling error
        assert -0.02 < gap < 0.08, (query, given, gap)


def _gaussian_log_prob(x, covariance, chosen):
    if not chosen.any():
        return torch.zeros(len(x), dtype=torch.float64)
    part = covariance[chosen][:, chosen]
    law = torch.distributions.MultivariateNormal(torch.zeros(len(part)).double(), part)
    return law.log_prob(x[:, chosen])


MODEL = make_model(UniformOrder(N), context_dim=0)
X = torch.zeros(2, N).double()
NAN = torch.full((2, N), torch.nan).double()
ANY = {"factorization": UniformOrder(N)}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MODEL.log_prob(X, mask("110000"), mask("010000"), **ANY), "variable 1 of row 0 is in both"),
        (lambda: MODEL.log_prob(X, mask("11000"), **ANY), r"query must have shape \(2, 6\) or \(6,\), got \(5,\)"),
        (lambda: MODEL.log_prob(X, torch.ones(N), **ANY), "query must be a tensor of dtype torch.bool.*float32"),
        (lambda: MODEL.log_prob(X, [True] * N, **ANY), "got list"),
        (lambda: MODEL.log_prob(NAN, mask("110000"), **ANY), "nan"),
        (lambda: MODEL.log_prob(X + 0.5, mask("110000"), **ANY), "0.5"),
        (lambda: MODEL.log_prob(X[:, :5], mask("110000"), **ANY), r"x must have shape \(rows, 6\), got \(2, 5\)"),
        (lambda: MODEL.log_prob(X, mask("110000"), orders=0, **ANY), "orders must be .* at least 1, got 0"),
        (lambda: MODEL.log_prob(X, mask("110000"), factorization=UniformOrder(5)), "over 5 variables.*over 6"),
        (lambda: MODEL.log_prob(X, mask("110000"), missing=mask("100000"), **ANY), "missing and query"),
        (lambda: MODEL.log_prob(X, mask("010000"), mask("100000"), missing=mask("100000"), **ANY), "missing and given"),
        (lambda: MODEL.sample(X, mask("110000"), temperature=0.0, **ANY), "temperature must be .* above 0, got 0.0"),
        (lambda: MODEL.sample(X, mask("110000"), temperature=math.inf, **ANY), "temperature"),
        (lambda: MODEL.sample(X, mask("110000"), steps=0, **ANY), "steps must be .* at least 1, got 0"),
        (lambda: MODEL.sample(X, mask("110000"), num_samples=0, **ANY), "num_samples"),
        (lambda: MODEL.sample(NAN, mask("110000"), **ANY), "nan"),
        (lambda: MODEL.conditionals(NAN, mask("100000")), "nan"),
        (lambda: MODEL.conditionals(X, mask("100000"), mode=torch.tensor([0, 0])), "mode"),
        (lambda: MODEL.conditionals(X, mask("100000"), context=torch.zeros(2, 3)), "context"),
        (lambda: MODEL.loss(NAN, UniformOrder(N).training_masks(2)), "nan"),
        (lambda: make_model(STAGED).conditionals(X, mask("000000"), torch.zeros(2, 2).double(), torch.tensor([9, 0])),
         r"mode\[0\] is 9"),
        (lambda: AnyOrderModel(MODEL.network, MODEL.head, rows_per_pass=0), "rows_per_pass"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_masks_of_operators_give_a_model_for_just_those_queries():
    operators = torch.stack([mask("110000"), mask("000011")])
    factorization = MaskTuned(FixedMasks(operators), query="conditional", cardinality_reweighting=False)
    evidence = factorization.training_masks(500, torch.Generator().manual_seed(0)).evidence
    held = evidence[:, None] & operators
    assert (held == operators).all(-1).any(-1).all()
