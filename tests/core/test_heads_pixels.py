"""The mixture over whole pixels: a density of three channels, drawn as it is scored."""

import itertools

import pytest
import torch

from mac_policy.core import AnyOrderModel, StagedModes
from mac_policy.core.heads import DiscretizedLogisticMixture, PixelLogisticMixture
from mac_policy.core.networks import UNet
from mac_policy.rows.estimate import estimated_log_prob

LEVELS, COMPONENTS = 4, 2
PIXELS = torch.tensor(list(itertools.product(range(LEVELS), repeat=3)))  # every pixel there is
MODES = StagedModes((1, 1), ["random"], channels=3)


def model(shape=(3, 1, 1), levels=LEVELS):
    torch.manual_seed(0)
    head = PixelLogisticMixture(levels, COMPONENTS, channels=3)
    network = UNet(
        shape=shape, num_features=1, num_params=head.num_params, num_modes=1, base_channels=8, blocks=1,
        attention_size=0,
    )  # fmt: skip
    for parameter in network.output.parameters():
        parameter.data.normal_()
    return AnyOrderModel(network, head).double().eval()


def slowly(params, pixel, asked):
    """log p of the asked channels of one pixel by the formula of the mixture, without tensors of more than one row."""
    head = PixelLogisticMixture(LEVELS, COMPONENTS, channels=3).double()
    raw = params.view(3, 5, COMPONENTS)
    weights = raw[:, 0].mean(0).softmax(0)
    values = 2 * pixel / (LEVELS - 1) - 1
    total = 0.0
    for k in range(COMPONENTS):
        product = weights[k]
        for c in range(3):
            mean = raw[c, 1, k] + sum(raw[c, 3 + other, k].tanh() * values[other] for other in range(c) if asked[other])
            plain = DiscretizedLogisticMixture(LEVELS, 1).double()
            alone = torch.tensor(
                [0.0, mean + head.spread[k] - plain.spread[0], raw[c, 2, k] + head.start - plain.start]
            )
            if asked[c]:
                product = product * plain(alone).log_prob(pixel[c]).exp()
        total = total + product
    return total.log()


@pytest.mark.parametrize("asked", list(itertools.product([True, False], repeat=3))[:-1])
def test_it_is_the_mixtures_density_of_whatever_channels_are_asked(asked):
    m = model()
    query = torch.tensor(asked).expand(len(PIXELS), 3)
    found = m.log_prob(PIXELS, query=query, factorization=MODES)
    nothing = torch.zeros(1, 3, dtype=torch.bool)
    params = m.network(torch.zeros(1, 3, 1).double(), nothing, None, torch.zeros(1, dtype=torch.long))[0]
    expected = torch.stack([slowly(params, pixel, asked) for pixel in PIXELS])
    torch.testing.assert_close(found, expected.detach())
    distinct = LEVELS ** (3 - sum(asked))
    assert float(found.exp().sum()) / distinct == pytest.approx(1, abs=1e-9)


def test_pixels_are_drawn_as_often_as_they_are_likely():
    m, n = model(), 20_000
    drawn = m.sample(
        torch.zeros(n, 3), given=torch.zeros(3, dtype=torch.bool), factorization=MODES,
        generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    counts = torch.bincount((drawn.long() * torch.tensor([16, 4, 1])).sum(1), minlength=64)
    expected = m.log_prob(PIXELS, query=torch.ones(64, 3, dtype=torch.bool), factorization=MODES).exp()
    torch.testing.assert_close(counts / n, expected.float(), atol=4 * 0.5 / n**0.5, rtol=0)


def test_training_asks_for_what_the_likelihood_is_made_of():
    """The mean loss over all training masks of 2 pixels is that of a step of the walk."""
    m, modes = model((3, 1, 2)), StagedModes((1, 2), ["random"], channels=3)
    x = torch.randint(0, LEVELS, (1, 6), generator=torch.Generator().manual_seed(1))
    query = torch.ones(1, 6, dtype=torch.bool)
    walks = m.log_prob(x.expand(400, 6), query=query.expand(400, 6), factorization=modes,
                       generator=torch.Generator().manual_seed(2))  # fmt: skip
    masks = modes.training_masks(4000, torch.Generator().manual_seed(3))
    loss = m.loss(x.expand(4000, 6), masks)
    assert float(2 * loss) == pytest.approx(-float(walks.mean()), rel=0.02)


def test_an_estimate_from_all_steps_is_the_likelihood():
    m, modes = model((3, 2, 2)), StagedModes((2, 2), ["random"], channels=3)
    x = torch.randint(0, LEVELS, (5, 12), generator=torch.Generator().manual_seed(1))
    query = torch.ones(5, 12, dtype=torch.bool)
    whole = m.log_prob(x, query=query, factorization=modes, generator=torch.Generator().manual_seed(2))
    some = estimated_log_prob(m, x, query=query, given=~query, factorization=modes, steps=4,
                              generator=torch.Generator().manual_seed(2))  # fmt: skip
    torch.testing.assert_close(whole, some)


def test_with_one_channel_it_is_the_plain_mixture():
    params = torch.randn(5, 9, generator=torch.Generator().manual_seed(0))
    x = torch.arange(5) % LEVELS
    plain, pixel = DiscretizedLogisticMixture(LEVELS, 3), PixelLogisticMixture(LEVELS, 3)
    assert pixel.num_params == 9
    torch.testing.assert_close(plain(params).log_prob(x), pixel(params).log_prob(x))
    assert pixel.after(params, x, x > 0) is params
