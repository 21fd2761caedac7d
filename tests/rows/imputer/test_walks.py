"""Walks of the ensemble against the answers of the core model."""

import numpy as np
import pytest
import torch

from mac_policy.core import AnyOrderModel, UniformOrder
from mac_policy.core.question import ranks_in_order
from mac_policy.rows.columns import Columns
from mac_policy.rows.imputer.encoding import Encoding
from mac_policy.rows.imputer.linear import JointGaussian, fit_gaussian
from mac_policy.rows.imputer.members import Ensemble, Members
from mac_policy.rows.imputer.walks import Walk, drawn, log_density

MEMBERS = 2


class OneOrder(UniformOrder):
    """The path along one order."""

    deterministic = True

    def __init__(self, order):
        super().__init__(len(order))
        self.order = order

    def ranks(self, *, query, given, generator=None):
        return ranks_in_order(self.order, query=query, given=given)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def tables():
    rng = np.random.default_rng(0)
    a = rng.normal(size=150)
    numbers = {"a": a, "b": 2 * a + rng.normal(size=150), "c": rng.exponential(size=150)}
    up = np.where(a + 0.3 * rng.normal(size=150) > 0, "up", "down").astype(object)
    letters = np.array(["x", "y", "z"], dtype=object)[rng.integers(3, size=150)]
    return {
        "mixed": {**numbers, "up": up, "letters": letters},
        "numbers": numbers,
        "one": {"a": a},
        "class": {"up": up},
    }


@pytest.fixture(params=["mixed", "numbers", "one", "class"], scope="module")
def parts(request):
    """An ensemble whose networks differ from its Gaussians, the core model on it, and encoded values."""
    columns = Columns.of(tables()[request.param])
    rows, _ = columns.encode(tables()[request.param])
    head, mixed = columns.head(3), columns.head(3 * MEMBERS).double()
    encoding = Encoding(rows, [len(column.classes) for column in columns.variables], head)
    x, observed = encoding.of_rows(rows)
    joint = JointGaussian([fit_gaussian(x[some], observed[some]) for some in (slice(100), slice(50, 150))])
    with torch.random.fork_rng():
        torch.manual_seed(0)
        members = Members(joint, encoding, num_components=3, width=8, depth=1, dropout=0.0, noise=0.0)
        torch.nn.init.normal_(members.last.weight, std=0.3)
    ensemble = Ensemble(members, mixed).double().eval().requires_grad_(False)
    ensemble.widening[:] = torch.linspace(0.8, 1.5, rows.shape[1])
    ensemble.heat.fill_(1.3)
    return ensemble, AnyOrderModel(ensemble, mixed), rows[:40]


def test_a_walk_answers_as_the_ensemble_for_all_evidence_on_the_way(parts):
    ensemble, model, x = parts
    n = x.shape[1]
    nothing = torch.zeros(MEMBERS, *x.shape, dtype=torch.bool)
    walk, known = Walk.begin(ensemble, x.expand(MEMBERS, *x.shape), nothing), nothing[0].clone()
    orders = torch.rand(x.shape, generator=generator()).argsort(1)  # of each row its own
    for step in range(n):
        variables = orders[:, step].expand(MEMBERS, -1)
        values = x.gather(1, orders[:, step, None])[:, 0].expand(MEMBERS, -1)
        found = walk.head(walk.params(variables), variables).log_prob(values)
        together = found.logsumexp(0) - np.log(MEMBERS)
        expected = model.conditionals(x, evidence=known).log_prob(x).gather(1, orders[:, step, None])[:, 0]
        assert torch.allclose(together, expected, atol=1e-6)
        walk.learn(variables, values, torch.ones_like(variables) > 0)
        known[torch.arange(len(x)), orders[:, step]] = True


def test_densities_are_those_of_the_core_model_along_the_same_order(parts):
    ensemble, model, x = parts
    order = torch.randperm(x.shape[1], generator=generator(1))
    observed = torch.rand(x.shape, generator=generator(2)) < 0.6
    observed[0], observed[1] = False, True
    found = log_density(ensemble, torch.where(observed, x, 0.0), observed, order)
    expected = model.log_prob(x, query=observed, factorization=OneOrder(order))
    assert torch.allclose(found, expected, atol=1e-6)
    assert float(found[0]) == 0


def test_draws_keep_what_is_given_and_depend_on_the_generator_alone(parts):
    ensemble, _, x = parts
    given = torch.rand(x.shape, generator=generator(3)) < 0.5
    given[0], given[1] = False, True
    law = UniformOrder(x.shape[1])
    ranks = law.ranks(query=~given, given=given, generator=generator(4))
    found = [drawn(ensemble, torch.where(given, x, 0.0), ranks, generator(5)) for _ in range(2)]
    assert torch.equal(*found)
    assert torch.equal(found[0][given], x[given])
    assert torch.equal(found[0][1], x[1])
    assert not torch.equal(found[0], drawn(ensemble, torch.where(given, x, 0.0), ranks, generator(6)))


def test_draws_have_the_density_of_the_members(parts):
    """The first variable that is drawn has the mixture of all members; its cumulative shares are uniform."""
    ensemble, model, x = parts
    variable = 0
    given = torch.arange(x.shape[1]) != variable
    many = x[:1].repeat(4000, 1)
    ranks = torch.where(given, -1, 0).expand_as(many)
    draws = drawn(ensemble, torch.where(given, many, 0.0), ranks, generator(7))[:, variable]
    values = draws.unique()
    mask = given.expand(len(values), -1)
    asked = x[:1].repeat(len(values), 1)
    asked[:, variable] = values
    density = model.conditionals(asked, evidence=mask).log_prob(asked)[:, variable].exp()
    if len(values) < 10:  # a category
        shares = (draws[:, None] == values).double().mean(0)
        assert (shares - density).abs().max() < 0.03
    else:
        assert float(torch.trapezoid(density, values)) == pytest.approx(1, abs=0.03)
        below = torch.cumulative_trapezoid(density, values)
        assert (below - torch.linspace(0, 1, len(values))[1:]).abs().max() < 0.04


def test_members_share_the_draws_of_a_row(parts):
    """Each copy of a row is drawn by a member of its own, so that the copies show what the members disagree about."""
    ensemble, _, x = parts
    if ensemble.members.categories:
        pytest.skip("a shift shows in numbers")
    many, ranks = x[:1].repeat(400, 1), torch.arange(x.shape[1]).expand(400, -1)
    ensemble.members.joint.mean[1] += 100
    draws = drawn(ensemble, torch.zeros_like(many), ranks, generator(8))
    ensemble.members.joint.mean[1] -= 100
    assert 0.4 < float((draws[:, 0] > 50 * float(ensemble.members.encoding.scale[0])).double().mean()) < 0.6
