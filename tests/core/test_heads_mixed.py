"""A head of several families: each variable has its own density, and the joint of all is a proper law."""

import itertools
import math

import pytest
import torch

from mac_policy.core import MaskTuned, UniformCardinality, UniformOrder
from mac_policy.core.heads import Bernoulli, Categorical, EnergyTilted, Gaussian, GaussianMixture, Mixed
from tests.core.models import make_model
from tests.core.path_models import make_path_model

GRID = torch.linspace(-40, 40, 8001, dtype=torch.float64)


def mixed():
    """Two categories of three and two classes around two real variables."""
    return Mixed([GaussianMixture(3), Categorical(3), Bernoulli(), Gaussian()], which=[1, 0, 2, 3]).double()


def discrete_only():
    return Mixed([Categorical(3), Categorical(2), Bernoulli()], which=[0, 1, 2, 0]).double()


def random_params(head, *shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return 0.7 * torch.randn(*shape, 4, head.num_params, generator=generator, dtype=torch.float64)


def test_every_variable_has_the_density_of_its_own_family():
    head = mixed()
    params = random_params(head, 5)
    x = torch.tensor([2.0, 0.3, 1.0, -0.7], dtype=torch.float64).repeat(5, 1)
    found = head(params).log_prob(x)
    for variable in range(4):
        own = head.head_of(variable)
        alone = own(params[:, variable, : own.num_params]).log_prob(x[:, variable])
        torch.testing.assert_close(found[:, variable], alone)
    some = torch.tensor([3, 0])
    torch.testing.assert_close(head(params[:, some], variables=some).log_prob(x[:, some]), found[:, some])


def test_every_family_has_its_own_training_loss():
    energy = EnergyTilted(4, num_components=2, latent_dim=3, hidden=4, num_blocks=1).double()
    head = Mixed([energy, Categorical(3)], which=[0, 1, 0, 0]).double()
    params, x = random_params(head, 5), torch.tensor([0.3, 2.0, -0.7, 1.1], dtype=torch.float64).repeat(5, 1)
    found = head.loss(params, x, torch.Generator().manual_seed(0))
    real = torch.tensor([0, 2, 3])
    own = energy.loss(params[:, real][..., : energy.num_params], x[:, real], torch.Generator().manual_seed(0), real)
    assert own.shape == (5, 3)
    torch.testing.assert_close(found[:, 1], -head(params).log_prob(x)[:, 1])
    torch.testing.assert_close(found[:, real].mean(), own.mean(), rtol=0.2, atol=0.2)  # other random proposals
    without = -head(params, generator=torch.Generator().manual_seed(0)).log_prob(x)[:, real]
    assert (found[:, real] - without).abs().min() > 0.1  # log q is part of it


def test_each_family_sums_or_integrates_to_one():
    head = mixed()
    conditional = head(random_params(head, 6))
    mass = conditional.log_prob_grid(GRID).exp().sum(-1) * (GRID[1] - GRID[0])
    for variable, classes in ((0, 3), (2, 2)):
        levels = torch.arange(classes, dtype=torch.float64)
        assert conditional.log_prob_grid(levels).exp().sum(-1)[:, variable] == pytest.approx(1.0, abs=1e-9)
    assert mass[:, 1] == pytest.approx(1.0, abs=1e-3)
    assert mass[:, 3] == pytest.approx(1.0, abs=1e-3)


def test_what_is_no_value_of_a_family_has_no_probability_and_is_refused():
    head = mixed()
    conditional = head(random_params(head, 1))
    x = torch.tensor([[3.0, 0.0, 0.5, 0.0]], dtype=torch.float64)
    assert conditional.log_prob(x)[0, [0, 2]].tolist() == [-math.inf, -math.inf]
    everywhere = torch.ones_like(x, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"x\[0, 0\] is 3.0: it must be an integer in 0..2"):
        head.check(x, everywhere)
    with pytest.raises(ValueError, match=r"x\[0, 2\] is 0.5: it must be 0 or 1"):
        head.check(torch.tensor([[1.0, 0.0, 0.5, 0.0]]), everywhere)
    head.check(x, torch.tensor([[False, True, False, True]]))


def test_features_are_those_of_the_family_padded_with_zeros():
    head = mixed()
    x = torch.tensor([[2.0, 0.3, 1.0, -0.7]])
    assert head.features(x)[0].tolist() == [
        pytest.approx(row) for row in ([0, 0, 1], [0.3, 0, 0], [1, 0, 0], [-0.7, 0, 0])
    ]
    gathered = head.features(x[:, [3, 0]], torch.tensor([[3, 0]]))
    torch.testing.assert_close(gathered, head.features(x)[:, [3, 0]])


def test_samples_follow_each_family_and_cool_to_the_mode():
    head = mixed()
    params = random_params(head, 1)
    drawn = head(params.expand(20_000, 4, -1)).sample(generator=torch.Generator().manual_seed(1))
    expected = head(params).log_prob_grid(torch.arange(3, dtype=torch.float64)).exp()[0, 0]
    shares = torch.bincount(drawn[:, 0].long(), minlength=3) / len(drawn)
    torch.testing.assert_close(shares.double(), expected, rtol=0, atol=0.02)
    torch.testing.assert_close(drawn[:, 1].mean(), head(params).mean[0, 1], rtol=0, atol=0.05)
    cold = head(params.expand(50, 4, -1)).sample(1e-6, torch.Generator().manual_seed(2))
    assert (cold[:, [0, 2]] == head(params).mode[:, [0, 2]]).all()


@pytest.mark.parametrize("make", [make_model, make_path_model], ids=["set", "path"])
@pytest.mark.parametrize(
    "factorization",
    [UniformOrder(4), MaskTuned(UniformCardinality(4), torch.tensor([2, 0, 3, 1]), query="both")],
    ids=["uniform", "mac"],
)
def test_conditionals_of_a_model_sum_to_one_by_enumeration(make, factorization):
    model = make(factorization, head=discrete_only(), context_dim=0)
    sizes = (3, 2, 2, 3)
    for given in ([], [0], [1, 3], [0, 1, 2]):
        given_mask = torch.zeros(4, dtype=torch.bool)
        given_mask[given] = True
        x = torch.tensor([1.0, 1.0, 0.0, 2.0], dtype=torch.float64)
        free = [i for i in range(4) if i not in given]
        rows = x.repeat(math.prod(sizes[i] for i in free), 1)
        rows[:, free] = torch.tensor(list(itertools.product(*(range(sizes[i]) for i in free))), dtype=torch.float64)
        path = torch.Generator().manual_seed(3)
        drawn = factorization.ranks(query=~given_mask[None], given=given_mask[None], generator=path)
        found = model.log_prob(rows, query=~given_mask, given=given_mask, factorization=Fixed(factorization, drawn))
        assert found.exp().sum().item() == pytest.approx(1.0, abs=1e-9)


class Fixed:
    """A factorisation that walks one path for all rows."""

    deterministic = False

    def __init__(self, factorization, ranks):
        self.inner, self._ranks = factorization, ranks
        self.num_variables, self.path_mode = factorization.num_variables, factorization.path_mode

    def ranks(self, *, query, given, generator=None):
        if bool(query.any()):
            return self._ranks.expand(query.shape)
        return self.inner.ranks(query=query, given=given, generator=generator)


@pytest.mark.parametrize("make", [make_model, make_path_model], ids=["set", "path"])
def test_a_model_samples_values_of_every_family_and_keeps_what_is_given(make):
    factorization = UniformOrder(4)
    model = make(factorization, head=mixed(), context_dim=0)
    x = torch.tensor([[2.0, 0.0, 1.0, 0.4]], dtype=torch.float64).repeat(50, 1)
    given = torch.tensor([True, False, False, True])
    drawn = model.sample(x, given=given, factorization=factorization, generator=torch.Generator().manual_seed(0))
    assert (drawn[:, given] == x[:, given]).all()
    assert set(drawn[:, 2].tolist()) <= {0.0, 1.0}
    assert len(set(drawn[:, 1].tolist())) == 50


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], [0]), "heads must be one or more"),
        (([Categorical(3)], []), "which must name a head 0..0"),
        (([Categorical(3)], [0, 1]), r"which must name a head 0..0 for every variable, got \[0, 1\]"),
    ],
)
def test_what_fits_no_head_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Mixed(*arguments)
