"""What all baselines promise: seen values stay, missing ones do not matter, settings are plain, training learns."""

import doctest
import importlib
import json
import math
import pkgutil

import pytest
import torch

import mac_policy.rows.baselines
from mac_policy.core.heads import Bernoulli, Categorical, DiscretizedLogisticMixture, EnergyTilted, Gaussian
from mac_policy.rows.baselines import BASELINES, DDPM, MIWAE, VAE
from mac_policy.rows.model import rows_of
from tests.rows.baselines.helpers import generator, mask

MLP = {"kind": "mlp", "width": 12, "depth": 2}
UNET = {"kind": "unet", "base_channels": 8, "blocks": 1, "attention_size": 0}
KINDS = {
    "table": ((5,), None, Gaussian, MLP),
    "binary": ((1, 4, 4), 2, Bernoulli, UNET),
    "grey": ((1, 12, 12), 16, lambda: DiscretizedLogisticMixture(16, 2), UNET | {"layers": 2}),
    "colour": ((3, 4, 4), 256, lambda: DiscretizedLogisticMixture(256, 2), MLP),
}
SETTINGS = {
    "vae": {"latent_dim": 3, "importance_samples": 6},
    "miwae": {"latent_dim": 3, "importance_samples": 6, "training_samples": 4},
    "ddpm": {"num_steps": 6, "jump_length": 2, "resamplings": 2},
}


def make(name, kind, seed=0):
    shape, levels, head, network = KINDS[kind]
    torch.manual_seed(seed)
    return BASELINES[name](shape, levels, head(), network, **json.loads(json.dumps(SETTINGS[name])))


def values(model, rows, seed=0):
    """Rows of values as floating-point numbers, so that there may be NaN among them."""
    size = (rows, model.num_variables)
    if model.levels is None:
        return torch.randn(size, generator=generator(seed))
    return torch.randint(0, model.levels, size, generator=generator(seed)).float()


@pytest.fixture(params=BASELINES)
def name(request):
    return request.param


@pytest.fixture(params=KINDS)
def model(request, name):
    return make(name, request.param)


def test_what_is_seen_stays_bit_by_bit_and_what_is_not_has_no_influence(model):
    x = values(model, 3)
    x[0, 0] = -0.0
    seen = torch.rand(x.shape, generator=generator(1)) < 0.5
    seen[0, 0], seen[1], seen[2] = True, True, False
    with_nan = torch.where(seen, x, math.nan)
    drawn = model.impute(with_nan, given=seen, num_samples=2, generator=generator())
    assert drawn.shape == (3, 2, model.num_variables)
    kept = seen[:, None].expand_as(drawn)
    assert torch.equal(drawn.view(torch.int32)[kept], x[:, None].expand_as(drawn).view(torch.int32)[kept])
    assert model.head.valid(drawn).all()
    assert torch.equal(drawn, model.impute(torch.where(seen, x, 0), given=seen, num_samples=2, generator=generator()))
    other = model.impute(with_nan, given=seen, num_samples=2, generator=generator(1))
    assert not torch.equal(drawn, other)


def test_there_are_no_modes_of_activation(name):
    model = make(name, "table")
    assert model.modes == ()
    with pytest.raises(ValueError, match="mode 'interior': this model is not trained in modes"):
        model.in_mode("interior")


def test_sample_and_impute_are_the_same_draws(model):
    x, seen = values(model, 3), mask("1" + "0" * (model.num_variables - 1))
    many = model.sample(x, given=seen, num_samples=2, generator=generator())
    assert torch.equal(many.transpose(0, 1), model.impute(x, given=seen, num_samples=2, generator=generator()))
    one = model.sample(x, given=seen, generator=generator())
    assert one.shape == x.shape
    assert torch.equal(one[:, None], model.impute(x, given=seen, generator=generator()))
    missing = mask("0" * (model.num_variables - 1) + "1")
    without = model.sample(x, given=seen, missing=missing, generator=generator())
    assert torch.equal(without, torch.where(missing, x, one))


@pytest.mark.parametrize("latent", ["vae", "miwae"])
@pytest.mark.parametrize("kind", KINDS)
def test_missing_values_are_in_neither_loss_nor_likelihood(latent, kind):
    model = make(latent, kind)
    x = values(model, 4)
    missing = torch.rand(x.shape, generator=generator(1)) < 0.4
    query = ~missing & (torch.rand(x.shape, generator=generator(2)) < 0.5)
    found = []
    for hidden in (math.nan, 1.0):
        shown = torch.where(missing, hidden, x)
        draws = model.draw(4, generator())
        model.zero_grad()
        loss = model(shown, draws, generator(), missing=missing)
        loss.backward()
        gradients = torch.cat([p.grad.flatten() for p in model.parameters()])
        log_prob = model.log_prob(shown, query=query, given=~query & ~missing, generator=generator())
        found.append((loss, gradients, *log_prob.values()))
    for first, second in zip(*found, strict=True):
        assert first.isfinite().all()
        assert torch.equal(first, second)


def test_the_loss_is_a_function_of_the_draws_and_reaches_every_weight(model):
    x, draws = values(model, 6), model.draw(6, generator())
    assert all(len(rows_of(draws, half).to("cpu")) == 3 for half in (slice(0, 3), slice(3, 6)))
    loss = model(x, draws, generator())
    assert torch.equal(loss, model(x, draws, generator()))
    loss.backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()] == []
    whole = torch.ones(model.num_variables, dtype=torch.bool)
    found = model.log_prob(x, query=whole, given=~whole, generator=generator(), steps=3, step_generator=generator())
    assert tuple(found) == model.densities
    assert all(v.shape == (6,) and v.isfinite().all() for v in found.values())


def test_integers_stay_integers_and_rows_share_passes(name):
    model = make(name, "grey")
    x, seen = values(model, 5).byte(), mask("10" * 72)
    assert model.sample(x, given=seen, generator=generator()).dtype == torch.uint8
    model.rows_per_pass = 2
    drawn = model.impute(x, given=seen, num_samples=3, generator=generator())
    assert torch.equal(drawn[:, :, seen], x[:, None, seen].expand(-1, 3, -1))
    table = make(name, "table")
    assert table.sample(torch.zeros(2, 5, dtype=torch.long), given=mask("00000")).is_floating_point()
    assert table.sample(torch.zeros(0, 5), given=mask("00000"), num_samples=2).shape == (2, 0, 5)
    assert table.log_prob(torch.zeros(0, 5), query=mask("11111"), given=mask("00000"))["model"].shape == (0,)


def test_wrong_settings_are_named():
    with pytest.raises(ValueError, match=r"unknown setting of the network 'widht'.*did you mean 'width'"):
        VAE((5,), None, Gaussian(), {"kind": "mlp", "widht": 3})
    with pytest.raises(ValueError, match="unknown network of an autoencoder 'transformer'"):
        MIWAE((5,), None, Gaussian(), {"kind": "transformer"})
    with pytest.raises(ValueError, match=r"head Gaussian is not for values 0\.\.3"):
        DDPM((5,), 4, Gaussian(), MLP)
    with pytest.raises(ValueError, match="EnergyTilted has none"):
        VAE((5,), None, EnergyTilted(5), MLP)
    with pytest.raises(ValueError, match="shows a value as one number, not 4"):
        DDPM((5,), 4, Categorical(4), MLP)
    with pytest.raises(ValueError, match="prior_share must be a number from 0 up to, but not, 1, got 1"):
        VAE((5,), None, Gaussian(), MLP, prior_share=1)
    with pytest.raises(ValueError, match="layers is 3: the image's sides can be halved 1 times only"):
        VAE((1, 6, 6), 2, Bernoulli(), UNET | {"layers": 3})
    with pytest.raises(ValueError, match=r"unknown schedule 'linaer'.*did you mean 'linear'"):
        DDPM((5,), None, Gaussian(), MLP, schedule="linaer")
    with pytest.raises(ValueError, match=r"x\[0, 1\] is nan: it must be a finite number"):
        VAE((2,), None, Gaussian(), MLP).impute(torch.tensor([[0.0, math.nan]]), given=mask("11"))


def table(rows, seed):
    """Four numbers that share most of what they are."""
    noise = torch.randn(rows, 5, generator=generator(seed))
    return (noise[:, :1] + 0.4 * noise[:, 1:]) / math.sqrt(1.16)


def trained(name, steps):
    torch.manual_seed(0)
    settings = {"vae": {"latent_dim": 2}, "miwae": {"latent_dim": 2, "training_samples": 5}, "ddpm": {"num_steps": 40}}
    model = BASELINES[name]((4,), None, Gaussian(), {"kind": "mlp", "width": 32, "depth": 2}, **settings[name])
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(steps):
        x = table(128, step)
        optimizer.zero_grad()
        model(x, model.draw(128, generator(step)), generator(step)).backward()
        optimizer.step()
    return model.eval()


@pytest.mark.parametrize("name", ["vae", "miwae", "ddpm"])
def test_a_small_table_is_learnt(name):
    """Better than independent normal columns, which is the best that a model without dependence can do."""
    model, x = trained(name, 400), table(200, 10_000)
    whole, half = mask("1111"), mask("1100")
    alone = -0.5 * x.square() - 0.5 * math.log(2 * math.pi)
    joint = model.log_prob(x, query=whole, given=~whole, generator=generator())["model"].mean()
    assert joint > alone.sum(1).mean() + 0.8
    if model.any_query:
        conditional = model.log_prob(x, query=half, given=~half, generator=generator())["model"].mean()
        assert conditional > alone[:, half].sum(1).mean() + 0.5
    filled = model.impute(x, given=~half, num_samples=4, generator=generator())[:, :, half].mean(1)
    assert (filled - x[:, half]).square().mean() < 0.5 * x[:, half].square().mean()


EXAMPLES = [
    example
    for module in pkgutil.iter_modules(mac_policy.rows.baselines.__path__, "mac_policy.rows.baselines.")
    for example in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(module.name), globs={})
    if example.examples
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_example_runs(example):
    told = []
    assert doctest.DocTestRunner(verbose=False).run(example, out=told.append).failed == 0, "".join(told)
