"""Mixtures in particular: the floor, symmetry, exact bins, and recovery of a known target."""

import math

import pytest
import torch

from mac_policy.core.heads import DiscretizedLogisticMixture, GaussianMixture
from mac_policy.core.heads.continuous import MixtureConditional
from mac_policy.core.networks import MLP

DOUBLE = torch.float64


@pytest.mark.parametrize("floor", [None, -1.5, -0.2])
def test_no_component_is_narrower_than_the_floor(floor):
    head = GaussianMixture(3, min_log_std=floor).double()
    params = torch.linspace(-1e3, 1e3, 50, dtype=DOUBLE)[:, None].expand(50, head.num_params)
    least = -7.0 if floor is None else floor
    log_stds = head(params).log_stds
    assert log_stds.min() >= least
    assert (log_stds[0] < least + 1e-6).all()
    assert log_stds.max() <= 7


def test_components_start_apart_so_that_they_can_become_different():
    head = GaussianMixture(4)
    params = torch.zeros(1, head.num_params, requires_grad=True)
    head.loss(params, torch.tensor([0.3])).sum().backward()
    assert params.grad is not None
    for block in params.grad[0].chunk(3):
        assert len(block.unique()) == 4


def test_one_component_is_the_normal_distribution():
    params = torch.tensor([[5.0, 0.4, 0.0]], dtype=DOUBLE)
    x = torch.tensor([1.3], dtype=DOUBLE)
    conditional = GaussianMixture(1).double()(params)
    expected = torch.distributions.Normal(0.4, conditional.log_stds.exp()[0, 0]).log_prob(x)
    torch.testing.assert_close(conditional.log_prob(x), expected)


def test_mode_is_the_component_mean_of_highest_density():
    head = GaussianMixture(3).double()
    params = torch.randn(200, head.num_params, generator=torch.Generator().manual_seed(0), dtype=DOUBLE)
    conditional = head(params)
    at_means = torch.stack([conditional.log_prob(mean) for mean in conditional.means.unbind(-1)], -1)
    torch.testing.assert_close(conditional.log_prob(conditional.mode), at_means.amax(-1))


def narrow_and_wide(logits: list[float]) -> MixtureConditional:
    """Components far apart: N(-5, 0.1^2) and N(5, 1)."""
    parts = (logits, [-5.0, 5.0], [math.log(0.1), 0.0])
    return MixtureConditional(*(torch.tensor(part, dtype=DOUBLE) for part in parts))


@pytest.mark.parametrize(("temperature", "narrow"), [(0.25, 0.999), (0.5, 0.909), (1.0, 0.5), (2.0, 0.240)])
def test_temperature_is_the_power_of_the_density_for_components_far_apart(temperature, narrow):
    mixture = narrow_and_wide([0.0, 0.0])
    grid = torch.linspace(-15, 15, 30_001, dtype=DOUBLE)
    power = (mixture.log_prob_grid(grid) / temperature).softmax(0)
    tempered = mixture.tempered(temperature).log_prob_grid(grid).exp() * (grid[1] - grid[0])
    torch.testing.assert_close(tempered, power, atol=1e-6, rtol=0)
    assert power[grid < 0].sum().item() == pytest.approx(narrow, abs=1e-3)
    many = MixtureConditional(mixture.log_weights, mixture.means.expand(20_000, 2), mixture.log_stds.expand(20_000, 2))
    drawn = many.sample(temperature, torch.Generator().manual_seed(0))
    assert (drawn < 0).double().mean().item() == pytest.approx(narrow, abs=0.01)


def test_a_cold_mixture_is_drawn_at_its_mode_though_another_component_weighs_more():
    mixture = narrow_and_wide([0.0, 0.1])
    cold = mixture.sample(1e-6, torch.Generator().manual_seed(0))
    assert mixture.mode == -5
    assert cold.item() == pytest.approx(-5, abs=1e-2)


@pytest.mark.parametrize("levels", [2, 3, 256])
@pytest.mark.parametrize("log_scale", [-50.0, -7.0, 0.0, 50.0])
@pytest.mark.parametrize("mean", [-100.0, -1.0, 0.3, 100.0])
def test_bins_cover_the_line_at_extreme_scales(levels, log_scale, mean):
    head = DiscretizedLogisticMixture(levels, 2).double()
    params = torch.tensor([0.3, -0.2, mean, -mean, log_scale, 0.0], dtype=DOUBLE)
    conditional = head(params[None])
    log_probs = conditional.log_prob_grid(torch.arange(levels))
    assert log_probs.isfinite().all()
    assert float(log_probs.exp().sum()) == pytest.approx(1, abs=1e-9)


def test_bins_agree_with_the_logistic_cdf():
    head = DiscretizedLogisticMixture(5, 1).double()
    params = torch.tensor([[0.0, 0.2, 0.1]], dtype=DOUBLE)
    conditional = head(params)
    edges = torch.tensor([-math.inf, -0.75, -0.25, 0.25, 0.75, math.inf], dtype=DOUBLE)
    cdf = torch.sigmoid((edges - conditional.means[0]) / conditional.log_scales[0].exp())
    torch.testing.assert_close(conditional.log_prob_grid(torch.arange(5))[0].exp(), cdf.diff())


def test_float32_is_as_good_as_float64_for_likely_levels():
    head = DiscretizedLogisticMixture(256, 5)
    params = torch.randn(50, head.num_params, generator=torch.Generator().manual_seed(0))
    x = head(params).sample(generator=torch.Generator().manual_seed(1))
    exact = head.double()(params.double()).log_prob(x)
    torch.testing.assert_close(head.float()(params).log_prob(x).double(), exact, rtol=1e-4, atol=1e-4)


def test_a_mixture_recovers_a_linear_gaussian_target():
    """y = 0.8 x + noise of 0.5: trained to say p(y | x), the mixture says N(0.8 x, 0.25)."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    head = GaussianMixture(3)
    network = MLP(num_variables=2, num_features=1, num_params=head.num_params, width=32, depth=2)
    optimiser = torch.optim.Adam(network.parameters(), lr=5e-3)
    evidence = torch.tensor([True, False])
    for step in range(500):
        for group in optimiser.param_groups:
            group["lr"] = 5e-3 * (1 - step / 500)
        x = linear_gaussian(512, generator)
        optimiser.zero_grad()
        loss = head.loss(network(head.features(x), evidence.expand(512, 2)), x)[:, 1].mean()
        loss.backward()
        optimiser.step()
    x = linear_gaussian(5000, generator)
    with torch.no_grad():
        conditional = head(network(head.features(x), evidence.expand(5000, 2)))
    exact = torch.distributions.Normal(0.8 * x[:, 0], 0.5).log_prob(x[:, 1])
    assert (exact - conditional.log_prob(x)[:, 1]).mean() == pytest.approx(0, abs=0.02)
    usual = x[:, 0].abs() < 2
    assert (conditional.mean[usual, 1] - 0.8 * x[usual, 0]).abs().max() < 0.15


def linear_gaussian(rows: int, generator: torch.Generator) -> torch.Tensor:
    first = torch.randn(rows, generator=generator)
    second = 0.8 * first + 0.5 * torch.randn(rows, generator=generator)
    return torch.stack([first, second], 1)
