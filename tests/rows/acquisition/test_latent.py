"""Rewards of models with a latent vector, against a linear one whose law is Gaussian."""

import itertools
import math

import pytest
import torch
from torch import nn

from mac_policy.core.heads import Gaussian
from mac_policy.rows.acquisition.curves import AcquisitionSettings, measured_curves
from mac_policy.rows.acquisition.latent import flattened, latent_information_gain, weighted_latents
from mac_policy.rows.baselines import VAE
from tests.rows.acquisition.test_information_gain import JointGaussian, mask

TOLD = [(), (0,), (1, 2)]


class Linear(nn.Module):
    """Means linear in z; one raw number for all standard deviations."""

    def __init__(self, gain, raw):
        super().__init__()
        self.gain, self.raw = gain, raw

    def forward(self, z):
        mean = z @ self.gain.T
        return torch.stack([mean, torch.full_like(mean, self.raw)], -1)


def linear_vae(raw=-0.5):
    """A VAE whose decoder is linear and whose encoder knows nothing; and its law."""
    torch.manual_seed(0)
    vae = VAE((5,), None, Gaussian(), {"kind": "mlp", "width": 8, "depth": 1}, latent_dim=3)
    gain = torch.randn(5, 3, generator=torch.Generator().manual_seed(4))
    vae.decoder = Linear(gain, raw)
    variance = vae.head(vae.decoder(torch.zeros(1, 3))).log_std[0, 0].exp().square()
    return vae, JointGaussian(gain @ gain.T + variance * torch.eye(5))


@pytest.mark.parametrize("target", [(4,), (3, 4)])
def test_the_reward_is_the_mutual_information_of_the_models_law(target):
    vae, law = linear_vae()
    seen = torch.stack([mask(5, *told) for told in TOLD]).repeat_interleave(4, 0)
    x = law.sample(
        torch.zeros(12, 5), given=torch.zeros(12, 5).bool(), generator=torch.Generator().manual_seed(0)
    ).float()
    generator = torch.Generator().manual_seed(1)
    found = latent_information_gain(
        vae,
        torch.where(seen, x, torch.nan),
        given=seen,
        target=mask(5, *target),
        num_samples=400,
        latents=800,
        generator=generator,
    )
    found = found.view(3, 4, 5).mean(1)
    for row, variable in itertools.product(range(3), range(5)):
        if variable in (*TOLD[row], *target):
            assert found[row, variable] == -math.inf
        else:
            assert found[row, variable] == pytest.approx(law.information(target, variable, TOLD[row]), abs=0.06)


def test_few_latent_vectors_of_a_narrow_law_do_not_make_the_reward_negative():
    """Importance sampling with z of its own for each term errs by whole nats here, downwards."""
    vae, _ = linear_vae(raw=-4.0)
    generator = torch.Generator().manual_seed(0)
    found = latent_information_gain(
        vae, torch.zeros(8, 5), given=mask(5), target=mask(5, 4), num_samples=64, latents=25, generator=generator
    )
    assert found[:, :4].mean(0).min() > 0.05


@torch.no_grad()
def test_fitted_proposals_find_where_the_latent_vector_is():
    vae, law = linear_vae(raw=-1.0)
    x, seen = torch.tensor([[1.5, -1.0, 0.5, 0.0, 0.0]]), mask(5, 0, 1, 2)[None]
    params, log_weights = weighted_latents(vae, x, seen, 1000, torch.Generator().manual_seed(0))
    assert 1 / log_weights.exp().square().sum() > 150  # 20 without fits
    means, _ = law.for_rows(x.double(), torch.tensor([3, 4]), torch.tensor([0, 1, 2]))
    found = (log_weights.exp()[..., None] * vae.head(params).mean[:, :, 3:]).sum(1)
    assert found == pytest.approx(means.float(), abs=0.15)


def test_weights_are_flattened_no_more_than_they_must():
    even, steep = torch.tensor([[0.0, 0.1, 0.2, 0.1]]), torch.tensor([[0.0, -50.0, -80.0, -1e4]])
    assert torch.equal(flattened(even, 2.0), even)
    assert 1 / flattened(steep, 2.0).softmax(-1).square().sum() == pytest.approx(2.0, abs=0.01)


def test_a_generator_decides_it_and_portions_do_not_matter_to_what_is_answered():
    vae, _ = linear_vae()
    one, same, other = (
        latent_information_gain(
            vae,
            torch.zeros(3, 5),
            given=mask(5, 0),
            target=mask(5, 4),
            candidates=mask(5, 2),
            num_samples=8,
            latents=9,
            generator=generator,
        )
        for generator in map(torch.Generator().manual_seed, (0, 0, 1))
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert one.isfinite().tolist() == [[False, False, True, False, False]] * 3


def test_its_own_order_is_by_these_rewards():
    vae, law = linear_vae()
    rows = law.sample(
        torch.zeros(12, 5), given=torch.zeros(12, 5).bool(), generator=torch.Generator().manual_seed(0)
    ).float()
    vae.importance_samples = 20
    settings = AcquisitionSettings(
        orders=("shared", "random"), random_orders=1, prediction_samples=2, baseline_samples=100, importance_samples=200
    )
    found = measured_curves(vae, rows, rows, mask(5, 4), settings, seed=0)
    first = max(range(4), key=lambda variable: law.information((4,), variable, ()))
    assert found["shared.order"][:, 0].tolist() == [first] * 12
