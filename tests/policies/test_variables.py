"""The variables of a policy: from what a robot says to what a network reads, and back."""

import json
import math

import numpy as np
import pytest
import torch

from mac_policy import Actions, Spaces
from mac_policy.common.folders import CONFIG, WEIGHTS
from mac_policy.demonstrations import Demonstrations, Episode
from mac_policy.policies.checkpoint import load_policy, save_policy
from mac_policy.policies.fit import fit_statistics
from mac_policy.policies.registry import make_policy
from mac_policy.policies.variables import Variables
from mac_policy.tasks import MinariTask
from tests.policies.conftest import ACTION, OBSERVATION, PLACED, SMALL, SPACES, make

SCALE = np.float32([0.5, 0.2, 1.0])
READ = [2, 0, 1]  # the observed position that each dim moves


def seen(rows, seed=0):
    return np.random.default_rng(seed).normal([2, 2, 2, 2], [1, 5, 0.1, 1], (rows, OBSERVATION)).astype(np.float32)


def test_targets_are_reading_plus_scale_times_action_and_lead_back():
    variables, observations = make("bc", representation="absolute").variables, seen(5)
    actions = np.random.default_rng(1).uniform(-1, 1, (5, ACTION)).astype(np.float32)
    targets = variables.targets(observations, actions)
    np.testing.assert_array_equal(targets, observations[:, READ] + SCALE * actions)
    np.testing.assert_allclose(variables.actions(observations, targets), actions, atol=1e-5)


def test_a_scale_that_is_lost_beside_the_readings_is_refused():
    tiny = Actions(("x", "y", "grip"), ("m",), "relative", observed=(2, 0, 1), scale=(0.5, 1e-7, 1.0))
    observations = seen(20)
    actions = np.random.default_rng(1).uniform(SPACES.action.low, SPACES.action.high, (20, ACTION)).astype(np.float32)
    zeros, no = np.zeros(20, np.float32), np.zeros(20, bool)
    episode = Episode(np.concatenate([observations, observations[-1:]]), actions, zeros, no, no)
    demos = Demonstrations.of([episode], name="made", kind="scripted")
    policies = {
        how: make_policy("bc", SPACES._replace(actions=tiny), SMALL["bc"] | {"representation": how})
        for how in ("absolute", "relative")
    }
    fit_statistics(policies["relative"], demos)
    with pytest.raises(ValueError, match=r"dim 'y': a scale of 1e-07 is lost beside readings of up to .*relative"):
        fit_statistics(policies["absolute"], demos)


def test_relative_variables_keep_actions_as_they_are():
    variables, actions = make("bc").variables, np.ones((5, ACTION), np.float32)
    assert variables.targets(seen(5), actions) is actions
    assert variables.actions(seen(5), actions) is actions
    assert variables.frame(torch.zeros(5, OBSERVATION)) is None


@pytest.mark.parametrize("representation", ["relative", "absolute"])
@pytest.mark.parametrize("horizon", [1, 3])
def test_decode_is_the_inverse_of_encode(representation, horizon):
    variables = make("bc", representation=representation, horizon=horizon).variables
    targets, present = torch.randn(6, horizon, ACTION), torch.from_numpy(seen(6))
    values = variables.encode(targets, present)
    assert values.shape == (6, horizon * ACTION)
    torch.testing.assert_close(variables.decode(values, present), targets, atol=1e-5, rtol=1e-5)


def test_the_present_step_of_an_absolute_chunk_is_the_action_itself():
    variables, observations = make("bc", representation="absolute", horizon=2).variables, seen(6)
    actions = np.random.default_rng(1).uniform(-1, 1, (6, 2, ACTION)).astype(np.float32)
    targets = variables.targets(observations[:, None], actions)
    values = variables.encode(torch.from_numpy(targets), torch.from_numpy(observations))
    expected = (torch.from_numpy(actions[:, 0]) - variables.mean[:ACTION]) / variables.std[:ACTION]
    torch.testing.assert_close(values[:, :ACTION], expected, atol=1e-4, rtol=1e-4)


def test_statistics_are_those_of_a_slow_loop_over_chunks():
    policy = make("bc", representation="absolute", horizon=3)
    rng = np.random.default_rng(1)  # the data of conftest.make
    observations = rng.normal(2.0, [1.0, 5.0, 0.1, 1e-9], (200, OBSERVATION))
    actions = np.clip(rng.normal([0.1, 0.5, 0.2], [0.3, 1.0, 0.2], (200, ACTION)), [-1, -2, 0], [1, 2, 0.5])
    places = observations[:, READ] + SCALE * actions
    for step in range(3):
        values = np.array(
            [
                (places[row + step] - observations[row, READ]) / SCALE
                for row in range(200)
                if row // 20 == (row + step) // 20  # an episode has 20 steps
            ]
        )
        part = slice(step * ACTION, (step + 1) * ACTION)
        np.testing.assert_allclose(policy.variables.mean[part], values.mean(0), rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(policy.variables.std[part], values.std(0), rtol=1e-3)
    np.testing.assert_allclose(policy.variables.place_mean[:ACTION], places.mean(0), rtol=1e-4)


def silent(**settings):
    """An absolute policy whose network says nought: its conditionals are Gaussians around the mean place."""
    policy = make("mac", representation="absolute", components=1, **settings)
    policy.model.network.output.weight.data.zero_()
    policy.model.network.output.bias.data.zero_()
    return policy


def test_the_density_of_an_absolute_policy_is_that_of_its_actions():
    policy, observations = silent(), seen(7)
    actions = np.random.default_rng(1).uniform([-1, -2, 0], [1, 2, 0.5], (7, ACTION)).astype(np.float32)
    v = policy.variables
    std = v.std[:ACTION].numpy() * float(policy.head(torch.zeros(3)).log_stds.exp())
    mean = (v.place_mean[:ACTION].numpy() - observations[:, READ]) / SCALE
    expected = (-0.5 * ((actions - mean) / std) ** 2 - np.log(std) - 0.5 * math.log(2 * math.pi)).sum(1)
    np.testing.assert_allclose(policy.log_prob(observations, actions), expected, rtol=1e-4)


@pytest.mark.parametrize("kind", ["mac", "mac_path"])
def test_the_density_of_an_absolute_policy_integrates_to_one_over_actions(kind):
    policy = make(kind, representation="absolute", masks="both")
    grid = np.linspace(-400, 400, 20001, dtype=np.float32)
    observation = seen(1)
    for dim in range(ACTION):  # a path network answers each dim given the ones before it
        action = np.zeros((len(grid), ACTION), np.float32)
        action[:, dim] = grid
        given = np.arange(ACTION) < dim
        found = policy.log_prob(
            np.repeat(observation, len(grid), 0), action, query=np.arange(ACTION) == dim, given=given
        )
        assert np.exp(found).sum() * (grid[1] - grid[0]) == pytest.approx(1.0, abs=2e-3)


@pytest.mark.parametrize("kind", ["mac", "mac_path"])
def test_a_reading_beyond_what_the_network_tells_apart_moves_the_action_by_its_distance(kind):
    """The context is clipped to the demonstrated range: there only the frame sees that the arm is elsewhere."""
    policy = make(kind, representation="absolute", masks="both")
    near = np.full((1, OBSERVATION), 500.0, np.float32)
    action = np.float32([[0.1, 0.2, 0.3]])
    for dim in range(ACTION):  # the dim alone: evidence would move with the action
        one = np.arange(ACTION) == dim
        found = policy.log_prob(near + 1.0, action - 1.0 / SCALE, query=one)
        np.testing.assert_allclose(found, policy.log_prob(near, action, query=one), rtol=1e-3)


def test_auto_is_absolute_where_places_are_known():
    assert Variables(PLACED).representation == "absolute"
    assert Variables(SPACES).representation == "relative"
    assert Variables(PLACED, representation="relative").frame(torch.zeros(1, OBSERVATION)) is None
    places = Spaces.of(*SPACES[:2], Actions(meaning="absolute"))
    assert Variables(places).representation == "absolute"
    assert Variables(places).frame(torch.zeros(1, OBSERVATION)) is None  # the action is the place


def test_names_steps_and_order():
    variables = Variables(PLACED, horizon=2, order=[2, 0, 1])
    assert variables.names == ("x", "y", "grip", "x+1", "y+1", "grip+1")
    assert variables.order.tolist() == [2, 0, 1, 5, 3, 4]
    assert (variables.list[4].step, variables.list[4].dim, variables.list[4].unit) == (1, 1, "m")
    assert variables.list[0].moves == (2, 0.5)
    assert (variables.list[1].low, variables.list[1].high) == (-2.0, 2.0)
    variables.high[4] = 7.0
    assert (variables.list[1].high, variables.list[4].high) == (2.0, 7.0)


def test_a_dim_that_is_called_as_a_later_step_of_another_is_refused():
    spaces = Spaces.of(*SPACES[:2], Actions(names=("x", "x+1", "grip")))
    assert Variables(spaces).names == ("x", "x+1", "grip")
    with pytest.raises(ValueError, match=r"a dim is called as a later step of another: x, x\+1, grip, x\+1,"):
        Variables(spaces, horizon=2)


def test_a_data_set_takes_names_and_units_for_its_dims():
    actions = MinariTask(names=("x", "y"), units=("m",), meaning="relative", observed=(0, 1), scale=(0.1,)).actions
    assert (actions.of(2, 4).names, actions.of(2, 4).units) == (("x", "y"), ("m", "m"))


def test_what_is_known_of_the_actions_is_stored_with_the_policy(tmp_path):
    policy = make("mac", representation="auto", horizon=2)
    policy = make_policy("mac", PLACED, SMALL["mac"] | {"horizon": 2})
    loaded = load_policy(save_policy(policy, tmp_path))
    assert loaded.spaces.actions == PLACED.actions
    assert loaded.variables.list == policy.variables.list
    np.testing.assert_array_equal(loaded.act(seen(3), deterministic=True), policy.act(seen(3), deterministic=True))


def test_a_policy_stored_before_variables_had_a_name_loads(tmp_path):
    policy = make("mac", horizon=2)
    save_policy(policy, tmp_path)
    config = json.loads((tmp_path / CONFIG).read_text())
    del config["spaces"]["actions"], config["settings"]["representation"]
    (tmp_path / CONFIG).write_text(json.dumps(config))
    from mac_policy.common import files

    tensors, _ = files.read_tensors(tmp_path / WEIGHTS)
    for name in ("mean", "std", "low", "high"):
        tensors[f"normalizer.action_{name}"] = tensors.pop(f"variables.{name}")[:ACTION].clone()
    files.write_tensors(tmp_path / WEIGHTS, tensors)
    loaded = load_policy(tmp_path)
    np.testing.assert_array_equal(loaded.act(seen(3), deterministic=True), policy.act(seen(3), deterministic=True))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Actions(observed=(0, 1)), "observed and scale go together"),
        (lambda: Actions(meaning="absolute", observed=(0,), scale=(1.0,)), "the meaning is 'absolute'"),
        (lambda: Actions(meaning="relative", observed=(0,), scale=(0.0,)), "scale must hold numbers above 0"),
        (lambda: Actions(meaning="relative", observed=(0,), scale=(1e308,)), r"from 1e-09 to 1e\+09, got \(1e\+308,\)"),
        (lambda: Actions(meaning="relative", observed=(-1,), scale=(1.0,)), "indices of an observation"),
        (lambda: Actions(names=("a", "a", "b")), "names must be different"),
        (lambda: Actions(meaning="places"), "meaning"),
        (lambda: Spaces.of(*SPACES[:2], Actions(names=("a",))), "names has 1 entries, the action has 3 dims"),
        (
            lambda: Spaces.of(*SPACES[:2], Actions((), (), "relative", (0, 1, 9), (1.0,))),
            "observed names 9: an observation has 4 values",
        ),
        (lambda: Variables(SPACES, representation="absolute"), "say which observed position"),
        (lambda: Variables(SPACES, representation="place"), "representation"),
        (
            lambda: Variables(Spaces.of(*SPACES[:2], Actions(meaning="absolute")), representation="relative"),
            "absolute already",
        ),
    ],
)
def test_what_does_not_fit_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_dims_go_by_their_names():
    by_name = make_policy("mac", PLACED, {"width": 8, "order": ["grip", "x", 1], "subsets": [["y"], ["x", "grip"]]})
    by_index = make_policy("mac", PLACED, {"width": 8, "order": [2, 0, 1], "subsets": [[1], [0, 2]]})
    assert by_name.variables.order.tolist() == by_index.variables.order.tolist() == [2, 0, 1]
    draws = [policy.own_draws(50, torch.Generator().manual_seed(0)).asked.evidence for policy in (by_name, by_index)]
    assert torch.equal(*draws)
    for settings in ({"order": ["gripp", "x", "y"]}, {"subsets": [["gripp"]]}):
        with pytest.raises(ValueError, match="did you mean 'grip'"):
            make_policy("mac", PLACED, settings)
