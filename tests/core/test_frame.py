"""A frame moves where conditionals lie, and nothing else."""

import math

import pytest
import torch

from mac_policy.core import AnyOrderModel, MaskTuned, UniformCardinality
from mac_policy.core.frame import Frame
from mac_policy.core.heads import Categorical, Gaussian, GaussianMixture, Mixed
from mac_policy.core.networks import MLP, PathTransformer
from tests.core.path_models import step_by_step

N, CONTEXT, ROWS = 3, 2, 4
HEADS = {
    "gaussian": lambda: Gaussian(),
    "mixture": lambda: GaussianMixture(3, min_log_std=-1.5),
    "mixed": lambda: Mixed([GaussianMixture(2), Categorical(4)], [0, 1, 0]),
}


def made(head, kind="set"):
    torch.manual_seed(0)
    sizes = {"num_variables": N, "num_features": head.num_features, "num_params": head.num_params}
    network = (
        MLP(**sizes, context_dim=CONTEXT, width=16, depth=2)
        if kind == "set"
        else PathTransformer(**sizes, context_dim=CONTEXT, width=16, depth=1, heads=2, trunk_width=16, trunk_depth=1)
    )
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
        parameter.requires_grad_(False)
    return AnyOrderModel(network.double(), head.double())


def frame(rows=ROWS):
    generator = torch.Generator().manual_seed(1)
    shift = torch.randn(rows, N, generator=generator, dtype=torch.float64)
    return Frame(3 * shift, torch.tensor([0.5, 1.0, 4.0], dtype=torch.float64))


def values(head, rows=ROWS):
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(rows, N, generator=generator, dtype=torch.float64)
    if isinstance(head, Mixed):
        x[:, 1] = torch.randint(4, (rows,), generator=generator).double()
    return x, torch.randn(rows, CONTEXT, generator=generator, dtype=torch.float64)


def by_hand(head, params, shift, scale, variable, x):
    """log p of one value, from the parameters of a network, in plain Python."""
    family = head.head_of(variable) if isinstance(head, Mixed) else head
    params = params[: family.num_params]
    if isinstance(family, Categorical):
        return float(params.log_softmax(0)[int(x)])
    inner = family(params)
    if isinstance(family, Gaussian):
        mean, log_std = shift + scale * float(inner.mean), float(inner.log_std)
        return -0.5 * ((x - mean) / math.exp(log_std)) ** 2 - log_std - 0.5 * math.log(2 * math.pi)
    total = 0.0
    for weight, mean, log_std in zip(inner.log_weights.exp(), inner.means, inner.log_stds, strict=True):
        std = math.exp(float(log_std))
        z = (x - (shift + scale * float(mean))) / std
        total += float(weight) * math.exp(-0.5 * z * z) / (std * math.sqrt(2 * math.pi))
    return math.log(total)


def slowly(model, x, ranks, context):
    """(B, N, P) parameters, a pass for every row and variable."""
    out = torch.zeros(*x.shape, model.head.num_params, dtype=torch.float64)
    for row, variable in (ranks >= 0).nonzero().tolist():
        seen = ranks[row] < ranks[row, variable]
        evidence = model.head.features(torch.where(seen, x[row], torch.zeros(N, dtype=torch.float64))[None])
        out[row, variable] = model.network(evidence, seen[None], model.network.encode(context[row : row + 1]))[
            0, variable
        ]
    return out


@pytest.mark.parametrize("kind", ["set", "path"])
@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("given", [[], [0], [1, 2], [0, 1, 2]], ids=str)
def test_log_prob_is_the_sum_of_moved_conditionals(name, kind, given):
    head = HEADS[name]()
    model, place, paths = made(head, kind), frame(), MaskTuned(UniformCardinality(N), query="both")
    x, context = values(head)
    known = torch.tensor([[i in given for i in range(N)]]).repeat(ROWS, 1)
    found = model.log_prob(x, query=~known, given=known, factorization=paths, context=context, frame=place)
    ranks = paths.ranks(query=~known, given=known)
    with torch.no_grad():
        params = slowly(model, x, ranks, context) if kind == "set" else step_by_step(model, x, ranks, context)
    for row in range(ROWS):
        asked = (ranks[row] >= 0).nonzero()[:, 0].tolist()
        terms = [
            by_hand(head, params[row, i], float(place.shift[row, i]), float(place.scale[i]), i, float(x[row, i]))
            for i in asked
        ]
        assert float(found[row]) == pytest.approx(sum(terms), abs=1e-9)


@pytest.mark.parametrize("kind", ["set", "path"])
def test_a_framed_density_integrates_to_one(kind):
    head = HEADS["mixture"]()
    model, paths = made(head, kind), MaskTuned(UniformCardinality(N), query="both")
    grid = torch.linspace(-25, 25, 401, dtype=torch.float64)
    x = torch.cartesian_prod(grid, grid)
    x = torch.cat([x, x.new_full((len(x), 1), 0.3)], 1)
    query = torch.tensor([True, True, False])
    one = Frame(torch.tensor([[2.0, -3.0, 1.0]], dtype=torch.float64).expand(len(x), -1), frame().scale)
    context = values(head)[1][:1].expand(len(x), -1)
    found = model.log_prob(x, query=query, given=~query, factorization=paths, context=context, frame=one)
    assert float(found.exp().sum() * (grid[1] - grid[0]) ** 2) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("kind", ["set", "path"])
def test_samples_follow_the_framed_conditionals(kind):
    head = HEADS["gaussian"]()
    model, paths = made(head, kind), MaskTuned(UniformCardinality(N), query="both")
    x, context = values(head, 1)
    place = Frame(frame(1).shift, frame(1).scale)
    given = torch.tensor([[False, True, True]])
    drawn = model.sample(
        x, given=given, factorization=paths, context=context, num_samples=4000, frame=place,
        generator=torch.Generator().manual_seed(0),
    )[:, 0]  # fmt: skip
    conditional = model.conditionals(x, evidence=given, context=context, factorization=paths, frame=place)
    std = float(conditional.log_std[0, 0].exp())
    assert float(drawn[:, 0].mean()) == pytest.approx(float(conditional.mean[0, 0]), abs=5 * std / 4000**0.5)
    assert float(drawn[:, 0].std()) == pytest.approx(std, rel=0.06)
    torch.testing.assert_close(drawn[:, 1:], x[:, 1:].expand(4000, -1))


@pytest.mark.parametrize("kind", ["set", "path"])
@pytest.mark.parametrize("name", HEADS)
def test_the_loss_is_that_of_the_framed_answers(name, kind):
    head = HEADS[name]()
    model, place, paths = made(head, kind), frame(), MaskTuned(UniformCardinality(N), query="both")
    x, context = values(head)
    draws = model.asking.draw(paths, ROWS, torch.Generator().manual_seed(3))
    found = model.loss(x, draws, context, frame=place)
    answers = model.answers(x, draws, context, place).log_prob(x)
    torch.testing.assert_close(found, -(draws.weights * answers).sum(1).mean(), rtol=1e-6, atol=1e-6)


def test_a_frame_of_shift_nought_and_scale_one_changes_nothing():
    head = HEADS["mixture"]()
    model, paths = made(head), MaskTuned(UniformCardinality(N))
    x, context = values(head)
    nought = Frame(torch.zeros_like(x), torch.ones(N, dtype=torch.float64))
    query = torch.ones(N, dtype=torch.bool)
    plain = model.log_prob(x, query=query, factorization=paths, context=context)
    torch.testing.assert_close(
        model.log_prob(x, query=query, factorization=paths, context=context, frame=nought), plain
    )


def test_categories_have_no_location():
    head = Categorical(4)
    with pytest.raises(TypeError, match="Categorical have no location"):
        head.moved(torch.zeros(2, 4), torch.zeros(2), torch.ones(2))
