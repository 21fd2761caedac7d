"""Images on their way along a path."""

import pytest
import torch

from mac_policy.core.networks import SetNetwork
from mac_policy.rows.generation.along_path import Generation, check_path, expected, generation, generation_rows, shares
from mac_policy.rows.spec import ModelSpec, build
from tests.rows.helpers import MLP, far_from_uniform

SHAPE, LEVELS = (3, 4, 4), 5
PIXELS, BERNOULLI = {"kind": "pixels", "num_components": 2}, {"kind": "bernoulli"}


def made(arm="sfarm", head=PIXELS, levels=LEVELS, shape=SHAPE, network=MLP):
    return far_from_uniform(build(ModelSpec(arm, shape, levels, network, head))).eval()


@pytest.mark.parametrize(
    ("arm", "head", "levels", "mode", "steps", "passes"),
    [
        ("sfarm", PIXELS, LEVELS, "interior", 8, 8),
        ("sfarm", PIXELS, LEVELS, None, 100, 16),  # the pixels
        ("mac", BERNOULLI, 2, None, 20, 20),
    ],
)
def test_what_is_active_grows_to_the_whole_and_stays(arm, head, levels, mode, steps, passes):
    model = made(arm, head, levels)
    model = model if mode is None else model.in_mode(mode)
    asked = Generation(images=2, moments=5, steps=steps)
    seen = []
    network = next(part for part in model.modules() if isinstance(part, SetNetwork))
    network.register_forward_hook(lambda *_: seen.append(1))
    found = generation(model, asked)
    assert len(seen) == passes + 5
    again = generation(model, asked)
    assert all(torch.equal(a, b) for a, b in zip(found, again, strict=True))
    active, values, means = found
    assert not active[0].any()
    assert active[-1].all()
    assert bool((active[1:] >= active[:-1]).all())
    assert shares(found) == ["0%", "25%", "50%", "75%", "100%"]
    kept = active[:-1]
    assert torch.equal(values[1:][kept], values[:-1][kept])
    assert torch.equal(means[active], values[active].to(means.dtype))
    assert bool((values[~active] == 0).all())
    assert bool(values[-1].any())
    if mode == "interior":  # whose inner 2 x 2 pixels are a quarter, and come last
        inner = torch.zeros(4, 4, dtype=torch.bool)
        inner[1:3, 1:3] = True
        assert torch.equal(active[3], ~inner.reshape(-1).repeat(3).expand(2, -1))
    rows = generation_rows(found, levels)
    assert list(rows) == ["1 active", "1 mean", "2 active", "2 mean"]
    assert bool(((rows["2 active"][0] - (levels - 1) / 2).abs() < 0.01 * levels).all())  # grey
    assert torch.equal(rows["1 active"][-1], values[-1, 0].float())


def test_the_mean_of_channels_drawn_in_turns_is_that_of_samples():
    """Of one component, whose means move with the channels before in a straight line but for the ends of the scale."""
    model = made(head={"kind": "pixels", "num_components": 1}, shape=(2, 2, 2), levels=32)
    for parameter in model.parameters():
        parameter.data *= 0.6
    x = torch.randint(0, 32, (1, 8), generator=torch.Generator().manual_seed(0))
    active = torch.tensor([[True, False, False, False] * 2])
    with torch.no_grad():
        found = expected(model, x * active, active)
    drawn = model.sample(
        x, given=active, num_samples=20_000, steps=1, generator=torch.Generator().manual_seed(1)
    ).double()
    assert torch.equal(found[active], x[active].to(found.dtype))
    assert (found - drawn.mean(0)).abs().max() < 1.0
    alone = model.model.conditionals(x, evidence=active, mode=model.factorization.path_mode(1)).mean
    assert (alone - drawn.mean(0))[~active].abs().max() > 1.5  # without the channels before


def test_what_cannot_be_drawn_is_named():
    with pytest.raises(ValueError, match=r"moments=6 are too many for 4 network passes, .* or more steps"):
        generation(made(), Generation(moments=6, steps=4))
    with pytest.raises(ValueError, match=r"moments=30 are too many for 16 network passes, .* choose fewer moments$"):
        generation(made(), Generation(moments=30))
    vae = build(ModelSpec("vae", (1, 4, 4), 2, {"kind": "vae", "network": MLP}, BERNOULLI))
    with pytest.raises(ValueError, match="the arm vae has no path"):
        check_path(vae, "vae")


@pytest.mark.parametrize(
    "wrong", [{"images": 0}, {"moments": 1}, {"steps": "x"}, {"steps": 0}, {"temperature": 0}, {"seed": -1}]
)
def test_wrong_options_are_named(wrong):
    with pytest.raises(ValueError, match=rf"^{next(iter(wrong))} must be"):
        Generation(**wrong)
