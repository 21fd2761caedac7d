"""Sampling from a path network: what the cache keeps changes nothing, and samples follow log_prob."""

import pytest
import torch

from benchmarks.reread import without_cache
from mac_policy.core import AnyOrderModel, MaskTuned, UniformCardinality, UniformOrder
from mac_policy.core.heads import Categorical, EnergyTilted, Gaussian, GaussianMixture
from mac_policy.core.networks import PathTransformer
from tests.core.models import CONTEXT, FACTORIZATIONS, K, N, every_value, make_model, mask
from tests.core.path_models import KINDS, make_path_model
from tests.core.test_masks import chi_square_p
from tests.core.test_model_sampling import GIVEN, exact_law

pytestmark = pytest.mark.filterwarnings("ignore:this query needs")  # the queries are not what is tested

every_kind = pytest.mark.parametrize("kind", KINDS)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def with_and_without_cache(model, x, given, seed=0, **options):
    return [m.sample(x, given=given, generator=generator(seed), **options) for m in (model, without_cache(model))]


@pytest.mark.parametrize("name", FACTORIZATIONS)
@pytest.mark.parametrize("steps", [None, 4, 2, 1])
@pytest.mark.parametrize("head", [Categorical(K), GaussianMixture(3)], ids=["categorical", "mixture"])
def test_the_cache_gives_the_same_samples_as_no_cache(name, steps, head):
    factorization = FACTORIZATIONS[name]
    x = torch.randint(K, (12, N), generator=generator()).double()
    given = torch.rand(12, N, generator=generator(1)) < torch.rand(12, 1, generator=generator(2))
    missing = (torch.rand(12, N, generator=generator(3)) < 0.2) & ~given
    context = torch.randn(12, CONTEXT, generator=generator(4)).double()
    for kind in KINDS:
        model = make_path_model(factorization, kind, head)
        options = {"factorization": factorization, "context": context, "steps": steps, "missing": missing}
        for copies in (1, 3):
            cached, anew = with_and_without_cache(model, x, given, num_samples=copies, **options)
            torch.testing.assert_close(cached, anew, atol=1e-9, rtol=1e-9)
            kept = (given | missing).expand_as(cached)
            assert torch.equal(cached[kept], x.expand_as(cached)[kept])


@pytest.mark.parametrize("name", ["mac-permuted", "mac-random", "channels"])
@every_kind
def test_samples_follow_log_prob_and_leave_what_is_given(kind, name):
    """Rows with masks and contexts of their own, drawn together; one has nothing left to draw."""
    factorization = FACTORIZATIONS[name]
    model = make_path_model(factorization, kind)
    g = generator(5)
    x = torch.randint(K, GIVEN.shape, generator=g).double()
    context = 2 * torch.randn(len(x), CONTEXT, generator=g).double()
    drawn = model.sample(x, given=GIVEN, num_samples=3_000, factorization=factorization, context=context, generator=g)
    assert torch.equal(drawn[:, GIVEN], x[GIVEN].expand(3_000, -1))
    for row, given in enumerate(GIVEN):
        unknown = drawn[:, row, ~given].long()
        codes = (unknown * K ** torch.arange(unknown.shape[1]).flip(0)).sum(1)
        if factorization.deterministic:
            rows, same = every_value(x[row], ~given), context[row : row + 1]
            options = {"factorization": factorization, "context": same.expand(len(rows), -1)}
            law = model.log_prob(rows, query=~given, given=given, **options).exp().detach()
        else:  # a path for each row: with causal attention the order of the given would be random too
            law = exact_law(model, factorization, x[row], given, context[row : row + 1])
        if factorization.deterministic or not model.network.given_in_order:
            assert chi_square_p(torch.bincount(codes, minlength=len(law)), law) > 1e-4


@every_kind
def test_a_step_reads_one_token_of_each_row_that_still_asks(kind):
    factorization = FACTORIZATIONS["mac"]
    model = make_path_model(factorization, kind, context_dim=0)
    given = torch.stack([mask(bits) for bits in ("111111", "011000", "000000", "011110")])
    read = []
    model.network.blocks[1].mlp.register_forward_hook(
        lambda module, arguments, out: read.append(arguments[0].shape[:2])
    )
    model.sample(torch.zeros(4, N).double(), given=given, factorization=factorization)
    # The row without a question is not read.
    assert [rows * tokens for rows, tokens in read] == [3 * 4, 3, 3, 2, 2, 1, 1]


@every_kind
def test_samples_of_one_row_read_what_is_given_once_where_their_paths_agree(kind):
    model = make_path_model(FACTORIZATIONS["mac"], kind, context_dim=0)
    read = []
    model.network.blocks[0].mlp.register_forward_hook(lambda module, arguments, out: read.append(arguments[0].shape[0]))
    for name, rows in (("mac", 2), ("mac-random", 2 if kind.startswith("free") else 10)):
        read.clear()
        arguments = {"factorization": FACTORIZATIONS[name], "num_samples": 5, "generator": generator()}
        model.sample(torch.zeros(2, N).double(), given=mask("111100"), **arguments)
        assert read[0] == rows


def test_sampling_is_repeatable_and_given_values_come_back_bit_identical():
    factorization = MaskTuned(UniformCardinality(N))
    model = make_path_model(factorization, "free", GaussianMixture(3), context_dim=0)
    x = torch.randn(50, N, dtype=torch.float64)
    given = torch.rand(50, N) < 0.5
    first, second = (
        model.sample(x, given=given, factorization=factorization, generator=generator(1)) for _ in range(2)
    )
    assert torch.equal(first, second)
    assert torch.equal(first[given], x[given])
    assert not torch.equal(first[~given], x[~given])
    several = model.sample(x, given=given, factorization=factorization, num_samples=3, generator=generator(1))
    assert several.shape == (3, 50, N)
    assert not torch.equal(several[0], several[1])
    assert torch.equal(model.sample(x, given=~mask("000000"), factorization=factorization), x)


@every_kind
def test_unseen_values_may_be_nan_when_sampling(kind):
    factorization = MaskTuned(UniformCardinality(N))
    model = make_path_model(factorization, kind, GaussianMixture(3), context_dim=0)
    given = mask("100100")
    x = torch.where(given, torch.ones(4, N).double(), torch.nan)
    for drawn in with_and_without_cache(model, x, given, factorization=factorization):
        assert drawn.isfinite().all()


def test_whole_numbers_do_not_cut_real_samples_and_stay_whole_for_discrete_heads():
    factorization = MaskTuned(UniformCardinality(N))
    model = make_path_model(factorization, "free", Gaussian(), context_dim=0)
    x, given = torch.ones(50, N, dtype=torch.long), mask("110000")
    drawn = model.sample(x, given=given, factorization=factorization, generator=generator())
    assert drawn.dtype == torch.get_default_dtype()
    assert (drawn[:, ~given] != drawn[:, ~given].round()).all()
    model = make_path_model(factorization, "free", context_dim=0)
    assert model.sample(x, given=given, factorization=factorization).dtype == torch.long


def test_low_temperature_finds_the_mode_of_each_conditional():
    factorization = MaskTuned(UniformCardinality(N))
    model = make_path_model(factorization, "causal", context_dim=0)
    nothing = mask("000000")
    cold = model.sample(torch.zeros(1, N).double(), given=nothing, factorization=factorization, temperature=1e-4)
    greedy = torch.zeros(1, N).double()
    for i in range(N):
        greedy[0, i] = model.conditionals(greedy, evidence=torch.arange(N) < i).mode[0, i]
    assert torch.equal(cold, greedy)


def test_one_step_draws_all_from_the_conditionals_given_the_evidence():
    factorization = MaskTuned(UniformCardinality(N))
    model = make_path_model(factorization, "free", context_dim=0)
    x = torch.zeros(30_000, N).double()
    drawn = model.sample(x, given=mask("100000"), factorization=factorization, steps=1, generator=generator())
    points = torch.arange(K, dtype=torch.float64)
    exact = model.conditionals(x[:1], evidence=mask("100000")).log_prob_grid(points)[0].exp().detach()
    for i in range(1, N):
        assert chi_square_p(torch.bincount(drawn[:, i].long(), minlength=K), exact[i]) > 1e-4


def test_each_variable_is_drawn_with_the_energy_of_its_own():
    head = EnergyTilted(N, 1, latent_dim=4, hidden=16, num_blocks=1, normaliser="grid", num_eval_samples=200)
    factorization = MaskTuned(UniformCardinality(N))
    model = make_path_model(factorization, "free", head, context_dim=0).eval()
    with torch.no_grad():
        model.network.output.weight *= 0.05
        model.network.output.bias.zero_()
        head.energy.variable.weight *= 5
        head.energy.output.weight *= 15
        x = torch.zeros(500, N).double()
        means = model.conditionals(x[:1], evidence=mask("000000")).mean[0]
    drawn = model.sample(x, given=mask("000000"), factorization=factorization, steps=1, generator=generator())
    assert (means - means[0]).abs().max() > 0.3
    torch.testing.assert_close(drawn.mean(0), means, atol=0.15, rtol=0)


@pytest.mark.parametrize("given", ["free", "causal"])
def test_a_single_variable(given):
    head = Categorical(K)
    network = PathTransformer(num_variables=1, num_features=K, num_params=K, width=8, depth=1, heads=1, given=given)
    model = AnyOrderModel(network, head).double()
    factorization, one = UniformOrder(1), torch.ones(1, dtype=torch.bool)
    x = torch.arange(K, dtype=torch.float64)[:, None]
    log_p = model.log_prob(x, query=one, factorization=factorization)
    assert log_p.exp().sum().item() == pytest.approx(1)
    drawn = model.sample(x[:1], given=~one, factorization=factorization, num_samples=20_000, generator=generator())
    assert chi_square_p(torch.bincount(drawn.flatten().long(), minlength=K), log_p.exp().detach()) > 1e-4


def test_no_rows_give_none():
    factorization = MaskTuned(UniformCardinality(N))
    for model in (make_path_model(factorization, context_dim=0), make_model(factorization, context_dim=0)):
        x = torch.zeros(0, N).double()
        assert model.sample(x, given=mask("110000"), factorization=factorization).shape == (0, N)
        assert model.log_prob(x, query=mask("110000"), factorization=factorization).shape == (0,)
