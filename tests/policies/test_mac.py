"""What only the any-order policy has: likelihoods, the two ways of filling in, its training masks."""

import numpy as np
import pytest
import torch

from mac_policy.core import TrainingMasks
from mac_policy.core.training_draws import map_tensors
from mac_policy.policies import decoding, quick_trunk
from tests.policies.conftest import ACTION, OBSERVATION, SPACES, batch, make


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(2, 1, (n, OBSERVATION)).astype(np.float32), rng.uniform(0.1, 0.4, (n, ACTION)).astype(np.float32)


def spread_out(policy, std):
    """Output weights of this size: untrained ones are zero, and all conditionals alike."""
    weight = policy.model.network.output.weight
    torch.nn.init.normal_(weight, std=std, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("kind", ["mac", "mac_paper"])
def test_the_density_of_one_dim_integrates_to_one(kind):
    policy = make(kind)
    seen, action = rows(1)
    grid = np.linspace(-40, 40, 8001).astype(np.float32)
    actions = np.repeat(action, len(grid), 0)
    actions[:, 1] = grid
    query = np.array([False, True, False])
    density = np.exp(policy.log_prob(np.repeat(seen, len(grid), 0), actions, query=query, given=[True, False, False]))
    assert abs(np.trapezoid(density, grid) - 1) < 1e-3


def test_the_chain_rule_in_canonical_order():
    policy = make("mac", order=[2, 0, 1])
    seen, action = rows(7)
    first, rest = np.array([False, False, True]), np.array([True, True, False])
    joint = policy.log_prob(seen, action)
    product = policy.log_prob(seen, action, query=first) + policy.log_prob(seen, action, query=rest, given=first)
    np.testing.assert_allclose(joint, product, atol=1e-5)


def test_chunks_have_the_likelihood_of_their_first_step():
    policy = make("mac", horizon=3, execute=2)
    seen, action = rows(5)
    assert policy.log_prob(seen, action).shape == (5,)
    operator = np.array([True, False, False])
    parts = policy.log_prob(seen, action, query=operator) + policy.log_prob(seen, action, given=operator)
    np.testing.assert_allclose(policy.log_prob(seen, action), parts, atol=1e-5)


def test_a_likelihood_that_is_not_defined_is_refused_by_name():
    policy = make("mac")
    seen, action = rows(2)
    first, nan = np.array([True, False, False]), action.copy()
    nan[1, 2] = np.nan
    with pytest.raises(ValueError, match=r"dims \[0\] are both given and queried"):
        policy.log_prob(seen, action, query=[True, True, False], given=first)
    with pytest.raises(ValueError, match="NaN or infinity"):
        policy.log_prob(seen, nan)
    assert np.isfinite(policy.log_prob(seen, nan, query=first)).all()  # what is not asked may be anything
    with pytest.raises(ValueError, match=r"given must be \(3,\) or \(2, 3\)"):
        policy.log_prob(seen, action, given=np.ones(2, bool))
    with pytest.raises(ValueError, match="action must be"):
        policy.log_prob(seen, action[:, :2])


def test_bc_has_no_likelihood():
    with pytest.raises(NotImplementedError, match="bc policy has no likelihood"):
        make("bc").log_prob(*rows(1))


@pytest.mark.parametrize("decode", ["mode", "mean", "sample"])
@pytest.mark.parametrize("temperature", [0.3, 1.0])
@pytest.mark.parametrize("dims", [[], [0], [1, 2]], ids=str)
def test_the_lean_path_fills_in_as_the_general_one(decode, temperature, dims):
    policy = make("mac", decode=decode, order=[1, 2, 0], query_depth=3)
    spread_out(policy, 0.3)
    generator = torch.Generator().manual_seed(0)
    path = decoding.Path([1, 2, 0], *policy.variables.bounds())
    how = decoding.How(decode, temperature)
    for _ in range(10):
        context, values, noise = (
            torch.randn(1, *shape, generator=generator) for shape in ((OBSERVATION,), (ACTION,), (ACTION, 2))
        )
        values = values.clamp(*policy.variables.bounds())
        given = torch.tensor([[dim in dims for dim in range(ACTION)]])
        with torch.inference_mode():
            general, _ = decoding.fill(policy.model, context, values * given, given, path, how, noise)
            network = policy.model.network
            query = quick_trunk.Query(network, context)
            short = quick_trunk.fill_one(query, policy.head, values * given, given, path, how, noise)
        np.testing.assert_allclose(general[0], short, atol=2e-5)


def test_weights_that_change_change_the_lean_path():
    policy = make("mac")
    seen, _ = rows(1)
    policy.act(seen)  # the arrays are kept from here on
    other = make("mac", seed=7)
    policy.load_state_dict(other.state_dict())
    np.testing.assert_array_equal(policy.act(seen, deterministic=True), other.act(seen, deterministic=True))


def test_values_are_chosen_inside_the_bounds_and_become_evidence_there():
    """A mean beyond the space: the next dimension must see the bound and not the mean."""
    policy = make("mac")
    spread_out(policy, 0.3)
    policy.model.network.output.bias.data.view(ACTION, -1)[0, 4:8] += 50.0
    seen, _ = rows(4)
    action = policy.act(seen, deterministic=True)
    assert (action[:, 0] == SPACES.action.high[0]).all()
    told = policy.act(seen, action, np.array([True, False, False]), deterministic=True)
    np.testing.assert_allclose(action, told, atol=1e-5)
    np.testing.assert_allclose(policy.act(seen[0], deterministic=True), action[0], atol=1e-5)


def test_the_score_of_a_sample_is_the_likelihood_of_what_was_filled_in():
    policy = make("mac", decode="best")
    spread_out(policy, 0.3)
    g = torch.Generator().manual_seed(0)
    context, values = torch.randn(4, OBSERVATION, generator=g), torch.rand(4, ACTION, generator=g) / 4
    given = torch.tensor([[False] * 3, [True, False, False], [False, True, False], [True, False, True]])
    path = decoding.Path([0, 1, 2], torch.full((ACTION,), -1e3), torch.full((ACTION,), 1e3))
    noise = torch.randn(4, ACTION, 2, generator=g)
    x, score = decoding.fill(policy.model, context, values, given, path, decoding.How("best", 1.0), noise)
    likelihood = policy.model.log_prob(
        x, query=~given, given=given, factorization=policy.factorization, context=context
    )
    torch.testing.assert_close(score, likelihood, atol=1e-4, rtol=1e-4)


def test_the_path_stops_where_the_chunk_is_cut_off():
    policy = make("mac", horizon=3, execute=2)
    state, seen = None, rows(2)[0]
    _, state = policy.step(seen, state, deterministic=True)
    whole = make("mac", horizon=3, execute=3)
    _, other = whole.step(seen, None, deterministic=True)
    np.testing.assert_allclose(state.plan[:, :2], other.plan[:, :2], atol=1e-6)
    unfilled = policy.variables.mean[:ACTION].numpy().clip(SPACES.action.low, SPACES.action.high)
    np.testing.assert_allclose(state.plan[:, 2], np.tile(unfilled, (2, 1)), atol=1e-6)


def test_the_best_of_several_samples_is_likelier_than_one():
    seen, _ = rows(100)
    likely = {}
    for decode in ("sample", "best"):
        policy = make("mac", decode=decode, candidates=8)
        action = policy.act(seen, generator=torch.Generator().manual_seed(0))
        likely[decode] = policy.log_prob(seen, action).mean()
    assert likely["best"] > likely["sample"] + 0.1


def test_a_low_temperature_and_zero_come_close_to_the_mode():
    policy = make("mac", components=1, min_log_std=None)
    seen, _ = rows(20)
    mode = policy.act(seen, deterministic=True)
    np.testing.assert_array_equal(policy.act(seen, temperature=0.0), mode)
    spread = [np.abs(policy.act(seen, temperature=t) - mode).mean() for t in (1e-6, 0.1, 1.0)]
    assert spread[0] < 1e-2 < spread[1] < spread[2]
    with pytest.raises(ValueError, match="temperature"):
        policy.act(seen, temperature=-1.0)


def test_training_masks_are_those_asked_for():
    def evidence(alone=0.0, **settings):
        policy = make("mac", alone=alone, **settings)
        return policy.draw(4000, torch.Generator().manual_seed(0)).own.asked.evidence.flatten(0, 1)

    only = evidence(subsets=[[1]])
    assert only[:, 1].all()
    assert not only.all(1).any()
    empty = float((~evidence().any(1)).double().mean())
    assert float((~evidence(alone=0.5).any(1)).double().mean()) > empty + 0.05
    chunk = evidence(horizon=3, execute=1, subsets=[[0, 2]])
    assert chunk[:, [0, 2]].all()
    # Later dims are seen only along the path, never before earlier ones.
    for variable in range(4, 9):
        assert not (chunk[:, variable] & ~chunk[:, :variable].all(1)).any()


def with_noise(draws, noise):
    """The same draws with this noise on the evidence."""
    return draws._replace(own=draws.own._replace(evidence_noise=noise))


def test_evidence_noise_touches_what_is_seen_and_not_what_is_to_be_predicted():
    policy = make("mac")
    data, draws = batch(policy), policy.draw(32, torch.Generator().manual_seed(0))
    quiet = with_noise(draws, torch.zeros_like(draws.own.evidence_noise))
    elsewhere = with_noise(draws, torch.where(draws.own.asked.evidence, 0.0, 9.0))
    assert torch.equal(policy(*data, quiet), policy(*data, elsewhere))
    assert policy(*data, quiet) != policy(*data, draws)


def test_rows_without_an_operator_see_their_own_dims_without_noise():
    draws = make("mac", alone=0.5, subsets=[[2]], evidence_noise=1.0).draw(4000, torch.Generator().manual_seed(0))
    asked, noise = map_tensors(lambda part: part.flatten(0, 1), draws.own)
    evidence, quiet = asked.evidence, (noise == 0).all(1)
    assert 0.45 < float(quiet.double().mean()) < 0.55
    assert evidence[~quiet, 2].all()  # the operator's dim
    assert not (evidence[quiet, 1:] & ~evidence[quiet, :-1]).any()  # a prefix of the path
    assert torch.equal(asked.weights > 0, ~evidence)


@pytest.mark.parametrize("settings", [{}, {"horizon": 3}, {"alone": 0.5, "history": 2}])
def test_several_masks_of_a_row_are_as_many_rows(settings):
    policy = make("mac", masks_per_row=3, **settings)
    observations, actions, inside = batch(policy)
    draws = policy.draw(32, torch.Generator().manual_seed(0))
    each = [draws._replace(own=map_tensors(lambda part, k=k: part[:, k : k + 1], draws.own)) for k in range(3)]
    one = make("mac", masks_per_row=1, **settings)
    one.load_state_dict(policy.state_dict())
    apart = torch.stack([one(observations, actions, inside, draw) for draw in each]).mean()
    torch.testing.assert_close(policy(observations, actions, inside, draws), apart)


def test_actions_beyond_an_episodes_end_are_neither_seen_nor_predicted():
    policy = make("mac", horizon=3)
    observations, actions, inside = batch(policy)
    draws = policy.draw(32, torch.Generator().manual_seed(0))
    changed = torch.where(inside[..., None], actions, actions + 1)
    assert torch.equal(policy(observations, actions, inside, draws), policy(observations, changed, inside, draws))


class AlongThePath:
    """Masks that ask only for the next dimension in canonical order: there samples follow the model exactly."""

    def training_masks(self, n, generator):
        known = torch.randint(ACTION, (n, 1), generator=generator)
        return TrainingMasks(torch.arange(ACTION) < known, (torch.arange(ACTION) == known).float())


def test_coverage_of_a_model_asked_about_its_own_samples():
    policy = make("mac", decode="sample")
    policy._trained = AlongThePath()
    spread_out(policy, 0.2)
    policy.variables.low.fill_(-100.0)
    policy.variables.high.fill_(100.0)
    space = SPACES.action
    wide = type(space)(-100.0, 100.0, space.shape, np.float32)
    policy.spaces = policy.spaces._replace(action=wide)
    seen, _ = rows(4000)
    action = policy.act(seen, generator=torch.Generator().manual_seed(0))
    found = policy.coverage(
        torch.from_numpy(seen)[:, None], torch.from_numpy(action)[:, None], torch.ones(4000, 1, dtype=torch.bool)
    )
    for percent, share in found.items():
        assert np.abs(share - percent / 100).max() < 0.04


@pytest.mark.parametrize(
    ("settings", "kind", "same"),
    [
        ({"network": "mlp", "width": 16, "depth": 2}, "mac_paper", {"min_log_std": -1.5, "width": 16, "depth": 2}),
        ({"network": "path_transformer", "query_width": 8, "query_depth": 2}, "mac_path", {"query_width": 8}),
    ],
)
def test_a_network_is_chosen_by_a_setting_and_the_kinds_are_such_choices(settings, kind, same):
    chosen, named = make("mac", decode="mode", **settings), make(kind, decode="mode", **same)
    weights = named.state_dict()
    assert list(chosen.state_dict()) == list(weights)
    chosen.load_state_dict(weights)
    seen, _ = rows(5)
    np.testing.assert_allclose(chosen.act(seen, deterministic=True), named.act(seen, deterministic=True), atol=1e-6)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"network": "path_transformers"}, "unknown network 'path_transformers'.*did you mean 'path_transformer'"),
        ({"head": "mixtures"}, "unknown head 'mixtures'"),
        ({"network": "path_transformer", "masks": "marginal"}, "a path_transformer would not learn to read"),
    ],
)
def test_networks_and_heads_that_do_not_serve_are_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        make("mac", **setting)
