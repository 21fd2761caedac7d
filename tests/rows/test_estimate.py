"""Estimates from some steps of a path: exact where there are enough, unbiased where not."""

import pytest
import torch

from mac_policy.core import AnyOrderModel
from mac_policy.core.heads import EnergyTilted, GaussianMixture
from mac_policy.rows.densities import ProposalOf, views
from mac_policy.rows.estimate import chosen_steps, estimated_log_prob
from mac_policy.rows.spec import build
from tests.rows.helpers import LEVELS, N, far_from_uniform, numbers, spec

pytestmark = pytest.mark.filterwarnings("ignore:this query needs")  # the queries are not what is tested


def task(seed=0, rows=7):
    g = torch.Generator().manual_seed(seed)
    x = torch.randint(0, LEVELS, (rows, N), generator=g).double()
    kind = torch.randint(0, 3, (rows, N), generator=g)
    return x, kind == 0, kind == 1


def both(model, x, query, given, steps, seed=0):
    exact = model.model.log_prob(
        x, query=query, given=given, factorization=model.factorization, generator=torch.Generator().manual_seed(3)
    )
    found = estimated_log_prob(
        model.model, x, query=query, given=given, factorization=model.factorization, steps=steps,
        generator=torch.Generator().manual_seed(3), step_generator=torch.Generator().manual_seed(seed),
    )  # fmt: skip
    return exact, found


@pytest.mark.parametrize("arm", ["mac", "ardm"])
def test_with_as_many_steps_as_a_path_has_it_is_exact(arm):
    model = far_from_uniform(build(spec(arm)))
    for steps in (N, N + 3):
        exact, found = both(model, *task(), steps)
        torch.testing.assert_close(found, exact, rtol=0, atol=1e-9)


@pytest.mark.parametrize("arm", ["mac", "ardm", "rnd-b"])
@pytest.mark.parametrize("steps", [1, 2, 4])
def test_with_fewer_it_is_right_on_average(arm, steps):
    model = far_from_uniform(build(spec(arm)))
    x = torch.randint(0, LEVELS, (1, N), generator=torch.Generator().manual_seed(1)).double()
    everything = torch.ones(1, N, dtype=torch.bool)
    many = 4000
    with torch.no_grad():
        exact, found = both(model, x.repeat(many, 1), everything.repeat(many, 1), ~everything.repeat(many, 1), steps)
    error = (found.mean() - exact.mean()) / ((found.var() + exact.var()) / many) ** 0.5
    assert found.std() > 1e-3
    assert abs(float(error)) < 4


def test_the_mean_over_what_may_come_next_varies_less_than_the_variable_that_does():
    model = far_from_uniform(build(spec("ardm")))
    x = torch.randint(0, LEVELS, (1, N), generator=torch.Generator().manual_seed(1)).double().repeat(500, 1)
    everything = torch.ones_like(x, dtype=torch.bool)
    found = both(model, x, everything, ~everything, 2)[1]
    model.factorization.next_law = lambda ranks, now: (ranks == now[:, None]).float()
    of_one_path = both(model, x, everything, ~everything, 2)[1]
    assert found.std() < 0.8 * of_one_path.std()


def test_steps_are_one_of_each_stratum_and_weigh_what_they_stand_for():
    lengths = torch.tensor([100, 3, 0, 10])
    row, step, weight = chosen_steps(lengths, 10, torch.Generator().manual_seed(0))
    first = step[row == 0]
    assert torch.equal(first // 10, torch.arange(10))
    assert weight[row == 0].tolist() == [10.0] * 10
    assert step[row == 1].tolist() == [0, 1, 2]
    assert weight[row == 1].tolist() == [1.0] * 3
    assert not (row == 2).any()
    assert step[row == 3].tolist() == list(range(10))


def test_every_step_is_met_equally_often_whatever_the_lengths():
    lengths = torch.full((20_000,), 7)
    _, step, weight = chosen_steps(lengths, 3, torch.Generator().manual_seed(0))
    share = torch.bincount(step, weight, minlength=7) / 20_000
    torch.testing.assert_close(share, torch.ones(7, dtype=share.dtype), atol=0.05, rtol=0)


def test_an_energy_head_has_its_proposal_and_its_grid_beside_it():
    rows = numbers()
    head = {"kind": "energy", "num_components": 3, "latent_dim": 4, "hidden": 8, "num_blocks": 1}
    model = build(spec(head=head, rows=rows)).eval()
    found = views(model.model)
    assert list(found) == ["model", "proposal", "grid"]
    assert isinstance(model.model.head, EnergyTilted)
    assert model.model.head.normaliser == "importance"  # the grid is a view, not a change
    assert found["grid"].head.normaliser == "grid"
    x = torch.from_numpy(rows.test[:5])
    evidence = torch.zeros(5, 4, dtype=torch.bool)
    evidence[:, 1] = True
    params = model.model.network(model.model.head.features(x), evidence)
    mixture = GaussianMixture(3)
    expected = mixture(params[..., 4:]).log_prob(x)
    torch.testing.assert_close(found["proposal"].conditionals(x, evidence=evidence).log_prob(x), expected)
    assert set(model.densities) == {"model", "proposal", "grid"}


def test_other_heads_have_one_density():
    model = build(spec())
    assert views(model.model) == {"model": model.model}
    assert isinstance(ProposalOf(EnergyTilted(2, latent_dim=3)).valid(torch.tensor([1.0])), torch.Tensor)
    assert isinstance(model.model, AnyOrderModel)
