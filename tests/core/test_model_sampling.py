"""AnyOrderModel.sample: the distribution that log_prob says, whatever is given, and in whatever context."""

import pytest
import torch

from mac_policy.core import MaskTuned, UniformCardinality
from mac_policy.core.heads import Categorical, EnergyTilted, Gaussian, GaussianMixture
from tests.core.models import CONTEXT, FACTORIZATIONS, K, N, WithRanks, every_value, make_model, mask
from tests.core.test_masks import chi_square_p

pytestmark = pytest.mark.filterwarnings("ignore:this query needs")  # the queries are not what is tested

GIVEN = torch.stack([mask(bits) for bits in ("111111", "010101", "110111", "011010")])


@pytest.mark.parametrize("name", FACTORIZATIONS)
def test_samples_follow_log_prob_and_leave_what_is_given(name):
    """Rows with masks and contexts of their own, drawn together; one has nothing left to draw."""
    factorization = FACTORIZATIONS[name]
    model = make_model(factorization)
    g = torch.Generator().manual_seed(5)
    x = torch.randint(K, GIVEN.shape, generator=g).double()
    context = 2 * torch.randn(len(x), CONTEXT, generator=g).double()
    arguments = {"factorization": factorization, "context": context, "generator": g}
    drawn = model.sample(x, given=GIVEN, num_samples=25_000, **arguments)
    assert torch.equal(drawn[:, GIVEN], x[GIVEN].expand(25_000, -1))
    for row, given in enumerate(GIVEN):
        unknown = drawn[:, row, ~given].long()
        codes = (unknown * K ** torch.arange(unknown.shape[1]).flip(0)).sum(1)
        law = exact_law(model, factorization, x[row], given, context[row : row + 1])
        assert chi_square_p(torch.bincount(codes, minlength=len(law)), law) > 1e-4


def exact_law(model, factorization, x, given, context):
    """The probability of every way to fill in the rest, the mean over all paths that there are."""
    rows = every_value(x, ~given)
    paths = factorization.ranks(
        query=(~given).expand(500, N), given=given.expand(500, N), generator=torch.Generator().manual_seed(0)
    )
    laws = [
        model.log_prob(
            rows,
            query=~given,
            given=given,
            factorization=WithRanks(factorization, path),
            context=context.expand(len(rows), -1),
        )
        for path in paths.unique(dim=0)
    ]
    return torch.stack(laws).exp().mean(0).detach()


@pytest.mark.parametrize("temperature", [0.3, 0.8, 2.5])
def test_temperature_reaches_every_conditional(temperature):
    factorization = MaskTuned(UniformCardinality(N))
    model = make_model(factorization, context_dim=0)
    x, given, g = torch.zeros(20_000, N).double(), mask("100000"), torch.Generator().manual_seed(0)
    drawn = model.sample(x, given=given, factorization=factorization, steps=1, temperature=temperature, generator=g)
    log_p = model.conditionals(x[:1], evidence=given).log_prob_grid(torch.arange(K))[0].detach()
    for i in range(1, N):
        law = (log_p[i] / temperature).softmax(0)
        assert chi_square_p(torch.bincount(drawn[:, i].long(), minlength=K), law) > 1e-4


def test_each_variable_is_drawn_with_the_energy_of_its_own():
    head = EnergyTilted(N, 1, latent_dim=4, hidden=16, num_blocks=1, normaliser="grid", num_eval_samples=100)
    factorization = MaskTuned(UniformCardinality(N))
    model = make_model(factorization, head, context_dim=0).eval()
    with torch.no_grad():
        model.network.output.weight *= 0.1
        model.network.output.bias.zero_()
        head.energy.variable.weight *= 5
        head.energy.output.weight *= 30
        x = torch.zeros(1500, N).double()
        means = model.conditionals(x[:1], evidence=mask("000000")).mean[0]
    g = torch.Generator().manual_seed(0)
    drawn = model.sample(x, given=mask("000000"), factorization=factorization, steps=1, generator=g)
    assert (means - means[0]).abs().max() > 0.5
    torch.testing.assert_close(drawn.mean(0), means, atol=0.1, rtol=0)


@pytest.mark.parametrize("head", [Gaussian(), GaussianMixture(3)])
@pytest.mark.parametrize("dtype", [torch.long, torch.uint8, torch.bool])
def test_whole_numbers_do_not_cut_real_samples(head, dtype):
    factorization = MaskTuned(UniformCardinality(N))
    model = make_model(factorization, head, context_dim=0)
    x, given = torch.ones(50, N, dtype=dtype), mask("110000")
    drawn = model.sample(x, given=given, factorization=factorization, generator=torch.Generator().manual_seed(0))
    assert drawn.dtype == torch.get_default_dtype()
    assert (drawn[:, given] == 1).all()
    assert (drawn[:, ~given] != drawn[:, ~given].round()).all()
    same = model.sample(x.float(), given=given, factorization=factorization, generator=torch.Generator().manual_seed(0))
    assert torch.equal(drawn, same)


def test_whole_numbers_of_a_discrete_head_stay_whole():
    factorization = MaskTuned(UniformCardinality(N))
    model = make_model(factorization, Categorical(K), context_dim=0)
    drawn = model.sample(torch.zeros(50, N, dtype=torch.long), given=mask("110000"), factorization=factorization)
    assert drawn.dtype == torch.long


def test_sampling_is_repeatable_and_given_values_come_back_bit_identical():
    factorization = MaskTuned(UniformCardinality(N))
    model = make_model(factorization, GaussianMixture(3), context_dim=0)
    x = torch.randn(50, N, dtype=torch.float64)
    given = torch.rand(50, N) < 0.5
    kwargs = {"factorization": factorization}
    first, second = (
        model.sample(x, given=given, generator=torch.Generator().manual_seed(1), **kwargs) for _ in range(2)
    )
    assert torch.equal(first, second)
    assert torch.equal(first[given], x[given])
    assert not torch.equal(first[~given], x[~given])
    several = model.sample(x, given=given, num_samples=3, generator=torch.Generator().manual_seed(1), **kwargs)
    assert several.shape == (3, 50, N)
    assert torch.equal(several[:, given], x[given].expand(3, -1))
    assert not torch.equal(several[0], several[1])
    everything = torch.ones(N, dtype=torch.bool)
    assert torch.equal(model.sample(x, given=everything, **kwargs), x)


def test_unseen_values_may_be_nan_when_sampling():
    factorization = MaskTuned(UniformCardinality(N))
    model = make_model(factorization, GaussianMixture(3), context_dim=0)
    given = mask("100100")
    x = torch.where(given, torch.ones(4, N).double(), torch.nan)
    assert model.sample(x, given=given, factorization=factorization).isfinite().all()


def test_fewer_steps_take_fewer_passes_and_low_temperature_finds_the_mode():
    factorization = MaskTuned(UniformCardinality(N))
    model = make_model(factorization, context_dim=0)
    passes = []
    forward = model.network.forward
    model.network.forward = lambda *a: (passes.append(1), forward(*a))[1]
    nothing = torch.zeros(N, dtype=torch.bool)
    for steps, expected in [(1, 1), (2, 2), (4, 4), (6, 6), (99, 6), (None, 6)]:
        passes.clear()
        model.sample(torch.zeros(5, N).double(), given=nothing, factorization=factorization, steps=steps)
        assert len(passes) == expected
    cold = model.sample(torch.zeros(1, N).double(), given=nothing, factorization=factorization, temperature=1e-4)
    greedy = torch.zeros(1, N).double()
    for i in range(N):
        greedy[0, i] = model.conditionals(greedy, evidence=torch.arange(N) < i).mode[0, i]
    assert torch.equal(cold, greedy)


def test_one_step_draws_all_from_the_conditionals_given_the_evidence():
    factorization = MaskTuned(UniformCardinality(N))
    model = make_model(factorization, context_dim=0)
    x = torch.zeros(60_000, N).double()
    drawn = model.sample(
        x, given=mask("100000"), factorization=factorization, steps=1, generator=torch.Generator().manual_seed(0)
    )
    points = torch.arange(K, dtype=torch.float64)
    exact = model.conditionals(x[:1], evidence=mask("100000")).log_prob_grid(points)[0].exp().detach()
    for i in range(1, N):
        assert chi_square_p(torch.bincount(drawn[:, i].long(), minlength=K), exact[i]) > 1e-4
