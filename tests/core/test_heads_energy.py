"""The energy head: what its normaliser is worth, and which part of the loss trains what."""

import math

import pytest
import torch
from torch import Tensor

from mac_policy.core.heads import EnergyTilted

DOUBLE = torch.float64


def head_and_params(**settings: object) -> tuple[EnergyTilted, Tensor]:
    torch.manual_seed(0)
    head = EnergyTilted(3, 2, latent_dim=4, hidden=16, num_blocks=1, **settings).double()  # type: ignore[arg-type]
    with torch.no_grad():
        head.energy.output.weight *= 30
    return head, 0.7 * torch.randn(6, 3, head.num_params, dtype=DOUBLE)


def log_normaliser_on_a_grid(head: EnergyTilted, params: Tensor) -> Tensor:
    exact, _ = head_and_params(normaliser="grid")
    exact.load_state_dict(head.state_dict())
    log_normaliser: Tensor = exact(params).log_normaliser
    return log_normaliser


@torch.no_grad()
def test_importance_sampling_approaches_the_grid():
    head, params = head_and_params(num_eval_samples=20_000)
    head.eval()
    exact = log_normaliser_on_a_grid(head, params)
    estimate = head(params, generator=torch.Generator().manual_seed(0)).log_normaliser
    torch.testing.assert_close(estimate, exact, rtol=0, atol=0.03)
    few = EnergyTilted(3, 2, latent_dim=4, hidden=16, num_blocks=1, num_eval_samples=10).double().eval()
    few.load_state_dict(head.state_dict())
    rough = few(params, generator=torch.Generator().manual_seed(0)).log_normaliser
    assert (rough - exact).abs().mean() > (estimate - exact).abs().mean()


@torch.no_grad()
def test_random_normaliser_is_one_function_per_generator_state():
    head, params = head_and_params()
    x = torch.randn(6, 3, dtype=DOUBLE)
    first = head(params, generator=torch.Generator().manual_seed(1))
    assert torch.equal(first.log_prob(x), first.log_prob(x))
    again = head(params, generator=torch.Generator().manual_seed(1))
    other = head(params, generator=torch.Generator().manual_seed(2))
    assert torch.equal(first.log_prob(x), again.log_prob(x))
    assert not torch.equal(first.log_prob(x), other.log_prob(x))
    assert first.points.shape == (6, 3, head.num_samples)
    head.eval()
    assert head(params, generator=torch.Generator()).points.shape == (6, 3, head.num_eval_samples)


@torch.no_grad()
def test_a_generator_fixes_the_draws_and_does_not_choose_the_estimator():
    head, params = head_and_params()
    x = torch.zeros(6, 3, dtype=DOUBLE)
    state = torch.get_rng_state()
    first, second = head(params), head(params)
    assert first.points.shape == (6, 3, head.num_samples)
    assert not torch.equal(first.log_prob(x), second.log_prob(x))
    assert not torch.equal(head.loss(params, x), head.loss(params, x))
    assert torch.equal(state, torch.get_rng_state())
    points = [head(params, generator=generator).points for generator in (None, torch.Generator())]
    assert points[0].shape == points[1].shape


@torch.no_grad()
def test_the_importance_estimate_is_optimistic_by_the_stated_amount():
    head, params = head_and_params(num_eval_samples=100)
    head.eval()
    params = params[0]
    drawn = head(params.expand(4000, 3, -1), generator=torch.Generator().manual_seed(0))
    too_high = log_normaliser_on_a_grid(head, params) - drawn.log_normaliser.mean(0)
    weights = (-drawn.energy(drawn.points)).exp().transpose(0, 1).flatten(1)  # (3, 400 000)
    stated = weights.var(1) / (2 * 100 * weights.mean(1).square())
    assert (too_high > 0).all()
    torch.testing.assert_close(too_high, stated, rtol=0.4, atol=0)


@torch.no_grad()
def test_grid_ignores_the_generator():
    head, params = head_and_params(normaliser="grid")
    x = torch.randn(6, 3, dtype=DOUBLE)
    assert torch.equal(head(params).log_prob(x), head(params, None, torch.Generator()).log_prob(x))


@torch.no_grad()
def test_a_constant_energy_leaves_the_proposal():
    head, params = head_and_params()
    head.energy.output.weight.zero_()
    x = torch.randn(6, 3, dtype=DOUBLE)
    conditional = head(params)
    torch.testing.assert_close(conditional.log_prob(x), conditional.proposal.log_prob(x))


@torch.no_grad()
def test_energies_are_clipped_and_positive():
    head, params = head_and_params(energy_clip=2.0)
    head.energy.output.weight *= 1e3
    energies = head(params).energy(torch.linspace(-5, 5, 50, dtype=DOUBLE).expand(6, 3, 50))
    assert energies.min() >= 0
    assert energies.max() == 2.0


@torch.no_grad()
def test_without_tilting_the_energy_alone_shapes_the_density():
    head, params = head_and_params(tilted=False, normaliser="grid", num_eval_samples=200)
    head.eval()
    conditional = head(params[:1])
    x = torch.linspace(-4, 4, 9, dtype=DOUBLE)
    energy = conditional.energy(x.expand(1, 3, 9))
    log_prob = conditional.log_prob_grid(x)
    torch.testing.assert_close(log_prob[..., :1] - log_prob, energy - energy[..., :1])
    peak = conditional.log_prob(conditional.mode)
    assert (peak >= log_prob.amax(-1) - 0.05).all()
    assert conditional.sample(generator=torch.Generator().manual_seed(0)).isfinite().all()


def gradients(head: EnergyTilted, params: Tensor, **weights: float) -> tuple[Tensor, Tensor, Tensor]:
    """Sizes of the loss's gradient on the latent vector, the proposal and the energy network."""
    for name, value in weights.items():
        setattr(head, name, value)
    params = params.clone().requires_grad_()
    head.zero_grad()
    x = torch.randn(6, 3, generator=torch.Generator().manual_seed(1), dtype=DOUBLE)
    head.loss(params, x, torch.Generator().manual_seed(0)).sum().backward()
    assert params.grad is not None
    latent, proposal = params.grad[..., : head.latent_dim], params.grad[..., head.latent_dim :]
    energy = torch.cat([p.grad.flatten() for p in head.parameters() if p.grad is not None])
    return latent, proposal, energy


def test_what_the_loss_trains():
    head, params = head_and_params()
    latent, proposal, energy = gradients(head, params, energy_weight=1.0)
    assert latent.abs().sum() > 0
    assert energy.abs().sum() > 0
    cold_latent, cold_proposal, cold_energy = gradients(head, params, energy_weight=0.0)
    assert cold_latent.abs().sum() == 0
    assert cold_energy.abs().sum() == 0
    torch.testing.assert_close(proposal, cold_proposal)  # maximum likelihood of the proposal, alone
    free = params.clone().requires_grad_()
    x = torch.randn(6, 3, generator=torch.Generator().manual_seed(1), dtype=DOUBLE)
    (-head(free).proposal.log_prob(x)).sum().backward()
    assert free.grad is not None
    torch.testing.assert_close(proposal, free.grad[..., head.latent_dim :])
    _, pulled, other = gradients(head, params, regulariser=5.0)
    torch.testing.assert_close(pulled, proposal)
    assert not torch.allclose(other, energy)


def test_loss_is_the_sum_of_its_parts():
    head, params = head_and_params(regulariser=0.5, normaliser="grid")
    x = torch.randn(6, 3, dtype=DOUBLE)
    conditional = head(params)
    log_p, log_q = conditional.log_prob(x), conditional.proposal.log_prob(x)
    expected = -(log_q + log_p) + 0.5 * (log_p - log_q).square()
    torch.testing.assert_close(head.loss(params, x), expected)


def test_every_parameter_of_the_energy_network_is_trained():
    head, params = head_and_params()
    head.loss(params, torch.randn(6, 3, dtype=DOUBLE), torch.Generator().manual_seed(0)).sum().backward()
    for name, parameter in head.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


@torch.no_grad()
def test_variables_have_energies_of_their_own():
    head, params = head_and_params()
    same = params[:1, :1].expand(1, 3, -1)
    log_prob = head(same).log_prob(torch.zeros(1, 3, dtype=DOUBLE))
    assert len(log_prob.flatten().unique()) == 3
    with pytest.raises(ValueError, match="which variables"):
        head(params[:, :2])


def test_the_energy_learns_what_the_proposal_cannot_say():
    """Uniform data on [-1, 1] and one Gaussian as the proposal: the energy cuts its tails off."""
    torch.manual_seed(0)
    head = EnergyTilted(1, 1, latent_dim=1, hidden=32, num_blocks=1)
    params = torch.zeros(1, 1, head.num_params, requires_grad=True)
    generator = torch.Generator().manual_seed(0)
    optimiser = torch.optim.Adam([params, *head.parameters()], lr=5e-3)
    for _ in range(300):
        x = 2 * torch.rand(128, 1, generator=generator) - 1
        optimiser.zero_grad()
        head.loss(params.expand(128, 1, -1), x, generator).mean().backward()
        optimiser.step()
    head.normaliser = "grid"  # judged without the bias of the estimate
    with torch.no_grad():
        conditional = head(params)
        x = torch.linspace(-1, 1, 2001)
        log_q, log_p = conditional.proposal.log_prob_grid(x).mean(), conditional.log_prob_grid(x).mean()
    entropy = math.log(2)
    assert -log_q > entropy + 0.1
    assert -log_p < entropy + 0.05
