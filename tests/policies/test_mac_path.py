"""What only the policy with a path network has: one walk over the action's dims, slow and quick, and its training."""

import numpy as np
import pytest
import torch

from mac_policy.core import TrainingQueries
from mac_policy.core.networks import PathNetwork
from mac_policy.policies import decoding, quick_path, quick_trunk
from mac_policy.policies.quick_path import normed, normed_rows
from tests.policies.conftest import ACTION, OBSERVATION, SPACES, batch, make
from tests.policies.test_mac import rows, with_noise


def rough(policy, std=0.4):
    """Weights far from their start, where all conditionals are alike."""
    generator = torch.Generator().manual_seed(3)
    for parameter in policy.model.parameters():
        torch.nn.init.normal_(parameter, std=std, generator=generator)
    return policy


def masks_of(*held):
    return torch.tensor([[dim in dims for dim in range(ACTION)] for dims in held])


def test_the_network_is_asked_in_one_pass():
    policy = make("mac_path")
    assert isinstance(policy.model.network, PathNetwork)
    passes = []
    policy.model.network.register_forward_hook(lambda *_: passes.append(1))
    policy.log_prob(*rows(5), given=[True, False, False])
    assert len(passes) == 1


def test_the_density_of_one_dim_integrates_to_one():
    policy = rough(make("mac_path"))
    seen, action = rows(1)
    grid = np.linspace(-60, 60, 12001).astype(np.float32)
    actions = np.repeat(action, len(grid), 0)
    actions[:, 1] = grid
    query = np.array([False, True, False])
    density = np.exp(policy.log_prob(np.repeat(seen, len(grid), 0), actions, query=query, given=[True, False, False]))
    assert abs(np.trapezoid(density, grid) - 1) < 2e-3


@pytest.mark.parametrize("decode", ["mode", "mean", "sample"])
@pytest.mark.parametrize("temperature", [0.3, 1.0])
@pytest.mark.parametrize("dims", [[], [0], [1, 2], [0, 1, 2]], ids=str)
def test_the_lean_path_fills_in_as_the_general_one(decode, temperature, dims):
    policy = rough(make("mac_path", decode=decode, order=[1, 2, 0], query_depth=3))
    network, generator = policy.model.network, torch.Generator().manual_seed(0)
    assert quick_path.suits(network)
    path = decoding.Path([1, 2, 0], *policy.variables.bounds())
    how = decoding.How(decode, temperature)
    for _ in range(10):
        context, values, noise = (
            torch.randn(1, *shape, generator=generator) for shape in ((OBSERVATION,), (ACTION,), (ACTION, 2))
        )
        given = masks_of(dims)
        values = values.clamp(*policy.variables.bounds()) * given
        with torch.inference_mode():
            general, _ = decoding.fill(policy.model, context, values, given, path, how, noise)
            walk = quick_path.Walk(network, network.trunk(context))
            short = quick_trunk.fill_one(walk, policy.head, values, given, path, how, noise)
        np.testing.assert_allclose(general[0], short, atol=3e-5)


def test_rows_and_vectors_are_normed_alike():
    x = np.random.default_rng(0).normal(3, 2, (5, 16)).astype(np.float32)
    exact = torch.nn.functional.layer_norm(torch.from_numpy(x), (16,))
    np.testing.assert_allclose(normed_rows(x), exact, atol=1e-5)
    np.testing.assert_allclose(np.stack([normed(row) for row in x]), exact, atol=1e-5)


def test_weights_that_change_change_the_lean_path():
    policy, other = rough(make("mac_path")), rough(make("mac_path"), 0.3)
    seen, _ = rows(1)
    first = policy.act(seen, deterministic=True)  # the arrays are kept from here on
    policy.load_state_dict(other.state_dict())
    np.testing.assert_array_equal(policy.act(seen, deterministic=True), other.act(seen, deterministic=True))
    assert (policy.act(seen, deterministic=True) != first).any()


def test_every_row_is_filled_in_as_if_asked_value_by_value():
    """The mode of each conditional in turn, from the model's own conditionals; rows hold dims of their own."""
    policy = rough(make("mac_path", order=[1, 2, 0]))
    given = masks_of([], [0], [1, 2], [2])
    context, x = torch.randn(4, OBSERVATION), torch.randn(4, ACTION).clamp(*policy.variables.bounds()) * given
    path = decoding.Path([1, 2, 0], *policy.variables.bounds())
    with torch.inference_mode():
        filled, _ = decoding.fill(policy.model, context, x, given, path, decoding.How("mode", 1.0), None)
        for row in range(4):
            slow, asked = x[row : row + 1].clone(), [i for i in path.dims if not given[row, i]]
            ranks = torch.where(given[row], -1, ACTION)
            for step, i in enumerate(asked):
                ranks[i] = step
                encoded = policy.model.network.encode(context[row : row + 1])
                params = policy.model.network(policy.head.features(slow), ranks[None], encoded)[:, i]
                slow[0, i] = policy.head(params).mode.clamp(path.low[i], path.high[i])[0]
            np.testing.assert_allclose(filled[row], slow[0], atol=3e-5)


def test_the_score_of_a_sample_is_the_likelihood_of_what_was_filled_in():
    policy = rough(make("mac_path", decode="best"))
    g = torch.Generator().manual_seed(0)
    context, values = torch.randn(4, OBSERVATION, generator=g), torch.rand(4, ACTION, generator=g) / 4
    given = masks_of([], [0], [1], [0, 2])
    path = decoding.Path([0, 1, 2], torch.full((ACTION,), -1e3), torch.full((ACTION,), 1e3))
    noise = torch.randn(4, ACTION, 2, generator=g)
    x, score = decoding.fill(policy.model, context, values, given, path, decoding.How("best", 1.0), noise)
    likelihood = policy.model.log_prob(
        x, query=~given, given=given, factorization=policy.factorization, context=context
    )
    torch.testing.assert_close(score, likelihood, atol=1e-3, rtol=1e-4)


def test_the_path_stops_where_the_chunk_is_cut_off():
    policy = rough(make("mac_path", horizon=3, execute=2))
    state, seen = None, rows(2)[0]
    _, state = policy.step(seen, state, deterministic=True)
    whole = rough(make("mac_path", horizon=3, execute=3))
    _, other = whole.step(seen, None, deterministic=True)
    np.testing.assert_allclose(state.plan[:, :2], other.plan[:, :2], atol=1e-5)
    unfilled = policy.variables.mean[:ACTION].numpy().clip(SPACES.action.low, SPACES.action.high)
    np.testing.assert_allclose(state.plan[:, 2], np.tile(unfilled, (2, 1)), atol=1e-6)


def test_training_queries_are_those_asked_for():
    def queries(**settings):
        policy = make("mac_path", **{"alone": 0.0} | settings)
        draws = policy.draw(1000, torch.Generator().manual_seed(0))
        return TrainingQueries(draws.own.asked.ranks.flatten(0, 1), draws.own.asked.weights.flatten(0, 1))

    only = queries(subsets=[[1]])
    assert only.given.sum(1).eq(1).all()
    assert only.given[:, 1].all()
    assert (only.given | only.query).all()
    assert (only.ranks[:, 0] == 0).all()
    assert len(queries(masks_per_row=3).ranks) == 3000
    empty = float((~queries().given.any(1)).double().mean())
    for alone in (0.2, 0.9):
        share = float((~queries(alone=alone).given.any(1)).double().mean())
        assert share == pytest.approx(alone + (1 - alone) * empty, abs=0.05)
    chunk = queries(horizon=3, subsets=[[0, 2]])
    assert chunk.given[:, [0, 2]].all()
    assert not chunk.given[:, ACTION:].any()
    both = queries(masks="both")
    assert not both.query[~both.given.any(1)].all(1).all()
    with pytest.raises(ValueError, match="would not learn to read what an operator holds"):
        make("mac_path", masks="marginal")


def test_evidence_noise_touches_what_is_read_and_not_what_is_to_be_predicted():
    policy = rough(make("mac_path", masks_per_row=2))
    data, draws = batch(policy), policy.draw(32, torch.Generator().manual_seed(0))
    ranks, quiet = draws.own.asked.ranks, with_noise(draws, torch.zeros_like(draws.own.evidence_noise))
    last = ranks == ranks.masked_fill(ranks == ACTION, -9).amax(-1, keepdim=True)
    on_last = with_noise(draws, torch.where(last, 9.0, 0.0))  # what is asked last is read by nothing
    assert torch.equal(policy(*data, quiet), policy(*data, on_last))
    assert policy(*data, quiet) != policy(*data, draws)


def test_rows_without_an_operator_have_exact_evidence():
    draws = make("mac_path", alone=0.3).draw(2000, torch.Generator().manual_seed(0)).own
    held = (draws.asked.ranks < 0).any(-1)
    noised = draws.evidence_noise.ne(0).any(-1)
    assert noised[held].all()
    operators = make("mac_path", alone=0.0).draw(2000, torch.Generator()).own.asked
    empty = float((~(operators.ranks < 0).any(-1)).double().mean())
    assert float(noised[~held].double().mean()) == pytest.approx(0.7 * empty / (0.3 + 0.7 * empty), abs=0.05)


def test_actions_beyond_an_episodes_end_are_neither_seen_nor_predicted():
    policy = rough(make("mac_path", horizon=3))
    observations, actions, inside = batch(policy)
    draws = policy.draw(32, torch.Generator().manual_seed(0))
    changed = torch.where(inside[..., None], actions, actions + 1)
    assert torch.equal(policy(observations, actions, inside, draws), policy(observations, changed, inside, draws))


def test_coverage_of_a_model_asked_about_its_own_samples():
    policy = rough(make("mac_path", decode="sample"), 0.2)
    policy.variables.low.fill_(-100.0)
    policy.variables.high.fill_(100.0)
    space = SPACES.action
    policy.spaces = policy.spaces._replace(action=type(space)(-100.0, 100.0, space.shape, np.float32))
    policy._trained = AllInOrder()
    seen, _ = rows(4000)
    action = policy.act(seen, generator=torch.Generator().manual_seed(0))
    found = policy.coverage(
        torch.from_numpy(seen)[:, None], torch.from_numpy(action)[:, None], torch.ones(4000, 1, dtype=torch.bool)
    )
    for percent, share in found.items():
        assert np.abs(share - percent / 100).max() < 0.04


class AllInOrder:
    """Asks for everything in canonical order, as samples are drawn."""

    def training_queries(self, n, generator):
        return TrainingQueries(torch.arange(ACTION).expand(n, -1), torch.ones(n, ACTION))


@pytest.mark.parametrize("setting", [{"weights": "edge"}, {"reweighting": False}])
def test_corrections_of_parallel_training_are_refused(setting):
    with pytest.raises(ValueError, match="leave them as they are, got weights="):
        make("mac_path", **setting)
    with pytest.raises(ValueError, match="query_heads"):
        make("mac_path", query_heads=0)
