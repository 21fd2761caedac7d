"""Properties that every head has: a proper density, samples that follow it, exact mean and mode."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from mac_policy.core.heads import (
    Bernoulli,
    Categorical,
    DiscretizedLogisticMixture,
    EnergyTilted,
    Gaussian,
    GaussianMixture,
    Head,
)
from mac_policy.core.networks.network import small_output


def energetic(head: EnergyTilted) -> EnergyTilted:
    """A head as after training: its energy is no constant, its proposal near its density."""
    with torch.no_grad():
        head.energy.output.weight *= 6
        head.energy.value.weight *= 0.5
    return head


DISCRETE = {
    "categorical-2": lambda: Categorical(2),
    "categorical-5": lambda: Categorical(5),
    "categorical-scalar": lambda: Categorical(5, encoding="scalar"),
    "bernoulli": Bernoulli,
    "levels-2": lambda: DiscretizedLogisticMixture(2, 3),
    "levels-3": lambda: DiscretizedLogisticMixture(3, 1),
    "levels-256": lambda: DiscretizedLogisticMixture(256, 5),
}
CONTINUOUS = {
    "gaussian": Gaussian,
    "gaussian-floor": lambda: Gaussian(-1.5),
    "mixture": lambda: GaussianMixture(4),
    "mixture-floor": lambda: GaussianMixture(4, min_log_std=-1.5),
    "energy": lambda: energetic(EnergyTilted(3, 2, latent_dim=4, hidden=16, num_blocks=1, normaliser="grid")),
    "energy-importance": lambda: energetic(EnergyTilted(3, 2, latent_dim=4, hidden=16, num_blocks=1)),
}
ALL = DISCRETE | CONTINUOUS
EXACT = [name for name in ALL if name != "energy-importance"]  # the density is a function, not an estimate
GRID = torch.linspace(-30, 30, 40_001, dtype=torch.float64)


def make(name: str) -> Head:
    torch.manual_seed(0)
    return ALL[name]().double().eval()


def random_params(head: Head, *shape: int, scale: float = 0.7, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(*shape, head.num_params, generator=generator, dtype=torch.float64)


def support(head: Head) -> Tensor:
    if not head.discrete:
        return GRID
    size = {Bernoulli: lambda h: 2, Categorical: lambda h: h.num_classes}.get(type(head), lambda h: h.num_levels)
    return torch.arange(size(head), dtype=torch.float64)


@torch.no_grad()
def probabilities(head: Head, params: Tensor) -> tuple[Tensor, Tensor]:
    """The support (G,) and the probability (mass or mass of a small interval) at each point, (..., G)."""
    points = support(head)
    density = head(params).log_prob_grid(points).exp()
    return points, density if head.discrete else density * (points[1] - points[0])


@pytest.mark.parametrize("name", EXACT)
def test_probabilities_add_up_to_one(name):
    head = make(name)
    _, mass = probabilities(head, random_params(head, 7, 3))
    tolerance = 1e-9 if head.discrete else 2e-3 if "energy" in name else 1e-8
    torch.testing.assert_close(mass.sum(-1), torch.ones(7, 3, dtype=torch.float64), rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", ALL)
def test_grid_agrees_with_log_prob(name):
    head = make(name)
    conditional = head(random_params(head, 2, 3))
    points = support(head)[:: max(len(support(head)) // 13, 1)]
    one_by_one = torch.stack([conditional.log_prob(p.expand(2, 3)) for p in points], -1)
    torch.testing.assert_close(conditional.log_prob_grid(points), one_by_one)
    assert conditional.batch_shape == (2, 3)


@pytest.mark.parametrize("name", EXACT)
@torch.no_grad()
def test_mean_and_mode_agree_with_a_grid(name):
    head = make(name)
    params = random_params(head, 5, 3)
    points, mass = probabilities(head, params)
    conditional = head(params)
    torch.testing.assert_close(conditional.mean, (mass * points).sum(-1), rtol=0, atol=1e-8 if head.discrete else 5e-3)
    at_mode = conditional.log_prob(conditional.mode)
    best = conditional.log_prob_grid(points).amax(-1)
    if head.discrete or isinstance(head, Gaussian):
        torch.testing.assert_close(at_mode, best, rtol=0, atol=1e-3)
    else:  # the highest among candidates: nearly the highest there is
        assert (best - at_mode).max() < 0.25
        assert (best - at_mode).min() > -1e-3


@pytest.mark.parametrize("name", EXACT)
@torch.no_grad()
def test_samples_follow_log_prob(name):
    head = make(name)
    params = random_params(head, 1, 3)
    samples = head(params.expand(5_000, 3, -1)).sample(generator=torch.Generator().manual_seed(1))
    assert samples.shape == (5_000, 3)
    points, mass = probabilities(head, params[0])
    for variable in range(3):
        values, expected = samples[:, variable].double().detach(), mass[variable]
        assert p_value(values, points, expected, head.discrete) > 1e-4


def p_value(values: Tensor, points: Tensor, mass: Tensor, discrete: bool) -> float:
    if not discrete:
        cdf = mass.cumsum(0) - 0.5 * mass
        return float(stats.kstest(values.numpy(), lambda v: np.interp(v, points.numpy(), cdf.numpy())).pvalue)
    counts = torch.bincount(values.long(), minlength=len(points)).double()
    expected = mass / mass.sum() * len(values)
    common = expected > 5
    observed, wanted = counts[common], expected[common]
    rest = torch.stack([counts[~common].sum(), expected[~common].sum()])
    if rest[1] > 5:
        observed, wanted = torch.cat([observed, rest[:1]]), torch.cat([wanted, rest[1:]])
    wanted = wanted * observed.sum() / wanted.sum()
    return float(stats.chisquare(observed.numpy(), wanted.numpy()).pvalue)


@pytest.mark.parametrize("name", ALL)
def test_samples_are_values_the_head_can_have_and_depend_on_the_generator_only(name):
    head = make(name)
    conditional = head(random_params(head, 50, 3))
    first = conditional.sample(generator=torch.Generator().manual_seed(3))
    state = torch.get_rng_state()
    second = conditional.sample(generator=torch.Generator().manual_seed(3))
    conditional.sample()
    assert torch.equal(first, second)
    assert torch.equal(state, torch.get_rng_state())
    assert not torch.equal(first, conditional.sample(generator=torch.Generator().manual_seed(4)))
    head.check(first, torch.ones(50, 3, dtype=torch.bool))


@pytest.mark.parametrize("name", ALL)
def test_a_generator_of_the_cpu_serves_any_device(name):
    head = make(name).to("meta")
    params = torch.zeros(5, 3, head.num_params, dtype=torch.float64, device="meta")
    generator = torch.Generator()
    state = generator.get_state()
    assert head(params).sample(generator=generator).device.type == "meta"
    assert not torch.equal(generator.get_state(), state)  # drawn where the generator is, and moved


@torch.no_grad()
def test_samples_without_a_generator_are_new_each_time():
    conditional = Gaussian()(torch.zeros(5, 2))
    assert not torch.equal(conditional.sample(), conditional.sample())


@pytest.mark.parametrize("name", ALL)
@torch.no_grad()
def test_temperature_widens_and_narrows(name):
    head = make(name)
    conditional = head(random_params(head, 1, 3, scale=1.5, seed=2).expand(500, 3, -1))
    generator = torch.Generator().manual_seed(0)
    spread = [conditional.sample(t, generator).double().std(0).mean() for t in (1e-6, 0.5, 1.0, 4.0)]
    assert spread[0] < 0.05 * spread[2]
    assert spread[1] < spread[2] < spread[3]


@pytest.mark.parametrize("name", [*DISCRETE, "gaussian", "energy"])
@torch.no_grad()
def test_samples_at_low_temperature_are_the_mode(name):
    head = make(name)
    conditional = head(random_params(head, 20, 3))
    cold = conditional.sample(1e-6, torch.Generator().manual_seed(0))
    gap = conditional.log_prob(conditional.mode) - conditional.log_prob(cold)
    assert gap.max() < 0.2


@pytest.mark.parametrize("name", [*DISCRETE, "gaussian"])
@pytest.mark.parametrize("temperature", [0.5, 3.0])
@torch.no_grad()
def test_samples_at_a_temperature_follow_the_power_of_the_density(name, temperature):
    head = make(name)
    params = random_params(head, 1, 3, scale=0.2)
    samples = head(params.expand(5_000, 3, -1)).sample(temperature, torch.Generator().manual_seed(1))
    points = support(head)
    mass = (head(params[0]).log_prob_grid(points) / temperature).softmax(-1)
    for variable in range(3):
        assert p_value(samples[:, variable].double(), points, mass[variable], head.discrete) > 1e-4


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan, "1"])
def test_temperature_must_be_positive(name, temperature):
    head = make(name)
    with pytest.raises(ValueError, match="temperature"):
        head(random_params(head, 1, 3)).sample(temperature)


@pytest.mark.parametrize("name", EXACT)
def test_gradients_agree_with_finite_differences(name):
    head = make(name)
    params = random_params(head, 2, 3, seed=5).requires_grad_()
    x = head(params.detach()).sample(generator=torch.Generator().manual_seed(0)).double().detach()
    if isinstance(head, EnergyTilted):  # what counts as constant there is the subject of its own tests
        free = params[..., : head.latent_dim].detach().requires_grad_()
        fixed = params[..., head.latent_dim :].detach()
        assert torch.autograd.gradcheck(lambda p: head(torch.cat([p, fixed], -1)).log_prob(x), (free,))
    else:
        assert torch.autograd.gradcheck(lambda p: head.loss(p, x), (params,))


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("size", [1e4, 1e30])
def test_extreme_parameters_stay_finite(name, size):
    head = make(name)
    for dtype in (torch.float32, torch.float64):
        head = head.to(dtype)
        params = (size * random_params(head, 20, 3).sign()).to(dtype).requires_grad_()
        conditional = head(params)
        x = conditional.mode.detach()
        log_prob = conditional.log_prob(x)
        log_prob.sum().backward()
        assert log_prob.isfinite().all()
        assert params.grad is not None
        assert params.grad.isfinite().all()
        assert conditional.mean.isfinite().all()
        assert conditional.sample(generator=torch.Generator().manual_seed(0)).isfinite().all()


@pytest.mark.parametrize("name", EXACT)
def test_half_precision_parameters_are_read_as_float32(name):
    head = make(name).float()
    params = random_params(head, 4, 3).bfloat16()
    x = head(params.float()).sample(generator=torch.Generator().manual_seed(0)).float()
    log_prob = head(params).log_prob(x)
    assert log_prob.dtype == torch.float32
    torch.testing.assert_close(log_prob, head(params.float()).log_prob(x))


@pytest.mark.parametrize("name", ALL)
@torch.no_grad()
def test_zero_parameters_are_uniform_or_standard_normal(name):
    head = make(name)
    if isinstance(head, EnergyTilted):
        small_output(head.energy.output)
    zeros = torch.zeros(500, 3, head.num_params, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    if head.discrete:
        points = support(head)
        x = points[torch.randint(len(points), (500, 3), generator=generator)]
        ideal = math.log(len(points))
    else:
        x = torch.randn(500, 3, generator=generator, dtype=torch.float64)
        ideal = 0.5 * math.log(2 * math.pi * math.e)
    assert -head(zeros).log_prob(x).mean() == pytest.approx(ideal, abs=0.15)


@pytest.mark.parametrize("name", ALL)
def test_features_have_the_promised_size_and_tell_values_apart(name):
    head = make(name)
    points = support(head)[:: max(len(support(head)) // 256, 1)]
    features = head.features(points)
    assert features.shape == (len(points), head.num_features)
    assert len(features.unique(dim=0)) == len(points)
    if head.discrete:
        torch.testing.assert_close(head.features(points.long()).double(), features, rtol=0, atol=1e-6)
        assert features.abs().max() <= 1


def bad_values(head: Head) -> list[float]:
    always = [math.nan, math.inf, -math.inf]
    return [*always, -1.0, 0.5, float(len(support(head)))] if head.discrete else always


@pytest.mark.parametrize("name", ALL)
def test_check_names_the_first_bad_value_and_looks_only_where_told(name):
    head = make(name)
    for bad in bad_values(head):
        x = torch.zeros(2, 3)
        x[1, 2] = bad
        with pytest.raises(ValueError, match=rf"x\[1, 2\] is {bad}: it must be"):
            head.check(x, torch.ones(2, 3, dtype=torch.bool))
        where = torch.ones(2, 3, dtype=torch.bool)
        where[1, 2] = False
        head.check(x, where)
        assert head.features(x)[0].isfinite().all()


@pytest.mark.parametrize("name", DISCRETE)
def test_what_is_no_level_has_probability_zero(name):
    head = make(name)
    size = len(support(head))
    bad = torch.tensor([-1.0, 0.5, float(size), math.nan], dtype=torch.float64)
    conditional = head(random_params(head, 4))
    assert (conditional.log_prob(bad) == -math.inf).all()
    assert (conditional.log_prob_grid(bad) == -math.inf).all()
    assert (conditional.log_prob(torch.tensor([-1, size, size, -1])) == -math.inf).all()


@pytest.mark.parametrize("name", EXACT)
def test_gathered_variables_and_empty_batches_work(name):
    head = make(name)
    params = random_params(head, 4, 3)
    x = head(params).sample(generator=torch.Generator().manual_seed(0)).double().detach()
    row, variable = torch.tensor([0, 3, 2]), torch.tensor([2, 0, 1])
    some = head(params[row, variable], variables=variable).log_prob(x[row, variable])
    torch.testing.assert_close(some, head(params).log_prob(x)[row, variable])
    nothing = torch.zeros(0, dtype=torch.long)
    assert head.loss(params[nothing, nothing], x[nothing, nothing], variables=nothing).shape == (0,)


@pytest.mark.parametrize("name", ALL)
def test_wrong_number_of_parameters_is_named(name):
    head = make(name)
    with pytest.raises(ValueError, match=str(head.num_params)):
        head(torch.zeros(2, 3, head.num_params + 1))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Categorical(1), "num_classes.*2.*got 1"),
        (lambda: Categorical(3, encoding="one-hot"), "'one-hot'.*did you mean 'onehot'"),
        (lambda: GaussianMixture(0), "num_components.*got 0"),
        (lambda: GaussianMixture(3, min_log_std=1.0), "min_log_std is 1.0"),
        (lambda: Gaussian(min_log_std=-20.0), "min_log_std is -20.0"),
        (lambda: Gaussian(min_log_std="low"), "min_log_std is 'low'"),
        (lambda: EnergyTilted(2, regulariser="much"), "regulariser.*got 'much'"),
        (lambda: EnergyTilted(2, energy_clip="30"), "energy_clip.*got '30'"),
        (lambda: DiscretizedLogisticMixture(1), "num_levels.*got 1"),
        (lambda: DiscretizedLogisticMixture(257), "2..256, got 257"),
        (lambda: DiscretizedLogisticMixture(4, num_components=0), "num_components.*got 0"),
        (lambda: EnergyTilted(0), "num_variables.*got 0"),
        (lambda: EnergyTilted(2, num_samples=0), "num_samples.*got 0"),
        (lambda: EnergyTilted(2, energy_clip=0.0), "energy_clip.*got 0.0"),
        (lambda: EnergyTilted(2, regulariser=-1.0), "regulariser.*got -1.0"),
        (lambda: EnergyTilted(2, normaliser="girth"), "'girth'"),
    ],
)
def test_bad_settings_are_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize("name", ALL)
def test_heads_can_be_printed(name):
    assert type(make(name)).__name__ in repr(make(name))


def test_small_unsigned_values_are_levels_as_their_wide_ones_are():
    """Images come as bytes, and 256 is no byte."""
    levels = torch.arange(256, dtype=torch.uint8)
    for head in (DiscretizedLogisticMixture(256, 2), Categorical(256), Categorical(256, encoding="scalar")):
        assert head.valid(levels).all()
        conditional = head(torch.zeros(256, head.num_params))
        assert torch.equal(conditional.log_prob(levels), conditional.log_prob(levels.long()))
        assert torch.equal(head.features(levels), head.features(levels.long()))
    assert Categorical(27).valid(levels).sum() == 27
