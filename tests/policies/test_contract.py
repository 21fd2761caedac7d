"""Every policy keeps the one contract."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.evaluation import evaluate_policy

from mac_policy.policies.checkpoint import load_policy, save_policy
from tests.policies.conftest import ACTION, OBSERVATION, SPACES, batch, make

SUBSETS = [[], [0], [2], [0, 1], [1, 2], [0, 1, 2]]


def observations(rows, seed=0):
    return np.random.default_rng(seed).normal(2, 1, (rows, OBSERVATION)).astype(np.float32)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def mask(dims):
    return np.isin(np.arange(ACTION), dims)


@pytest.mark.parametrize("dims", SUBSETS, ids=str)
@pytest.mark.parametrize("rows", [1, 5])
def test_what_is_given_comes_back_bit_for_bit(policy, dims, rows):
    rng = np.random.default_rng(3)
    given = SPACES.action.low + rng.random((rows, ACTION)) * (SPACES.action.high - SPACES.action.low)
    given = given.astype(np.float32)
    given[0] = [-0.0, 2.0, 0.0]  # signed zero and the bounds themselves
    held = np.broadcast_to(mask(dims), given.shape)
    ungiven = np.where(held, given, np.nan)  # what is not given may be anything
    action = policy.act(observations(rows), ungiven, held)
    assert action.dtype == given.dtype
    assert action[held].tobytes() == given[held].tobytes()
    assert all(SPACES.action.contains(row) for row in action)


def test_every_row_may_hold_other_dims(policy):
    held = np.array([mask(dims) for dims in SUBSETS])
    given = np.tile(np.float32([0.3, -1.5, 0.4]), (len(held), 1))
    action = policy.act(observations(len(held)), given, held)
    assert (action[held] == given[held]).all()


def test_actions_are_finite_and_inside_the_space_whatever_is_observed(policy):
    extreme = np.array([0.0, 1.0, -1e6, 1e30, -1e300, np.inf, -np.inf, 5e-324])
    seen = np.random.default_rng(0).choice(extreme, (24, OBSERVATION))
    for deterministic in (True, False):
        action = policy.act(seen, deterministic=deterministic)
        assert all(SPACES.action.contains(row) for row in action)


def test_the_same_generator_gives_the_same_action(policy):
    seen = observations(6)
    first, second = (policy.act(seen, generator=generator(5)) for _ in range(2))
    assert (first == second).all()
    assert (policy.act(seen, deterministic=True) == policy.act(seen, deterministic=True)).all()


def test_without_a_generator_the_policy_uses_its_own_and_not_the_global_one(policy):
    torch.manual_seed(0)
    before = torch.get_rng_state()
    policy.seed(3)
    first = policy.act(observations(4))
    policy.seed(3)
    assert (policy.act(observations(4)) == first).all()
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("dims", [[], [1], [0, 2]], ids=str)
def test_a_batch_answers_as_its_rows_do_one_by_one(policy, dims):
    seen, given = observations(5), np.full((5, ACTION), 0.25, np.float32)
    together = policy.act(seen, given, np.tile(mask(dims), (5, 1)), deterministic=True)
    alone = np.stack([policy.act(row, given[0], mask(dims), deterministic=True) for row in seen])
    np.testing.assert_allclose(together, alone, atol=2e-5)


def test_rows_that_hold_other_dims_answer_as_they_do_one_by_one(policy):
    held = np.array([mask(dims) for dims in SUBSETS])
    seen, given = observations(len(held)), np.tile(np.float32([0.9, -1.5, 0.4]), (len(held), 1))
    together = policy.act(seen, given, held, deterministic=True)
    alone = [policy.act(*row, deterministic=True) for row in zip(seen, given, held, strict=True)]
    np.testing.assert_allclose(together, alone, atol=2e-5)


def test_saving_and_loading_changes_nothing(policy, tmp_path):
    loaded = load_policy(save_policy(policy, tmp_path / "p", {"name": "d", "sha256": "0" * 64}))
    seen = observations(6)
    for options in ({"deterministic": True}, {"generator": generator(1)}):
        first = policy.act(seen, **options)
        options = options | ({"generator": generator(1)} if "generator" in options else {})
        assert (loaded.act(seen, **options) == first).all()
    assert loaded.settings == policy.settings


def test_every_parameter_gets_a_gradient(policy):
    policy.train()
    policy(*batch(policy), policy.draw(32, generator())).backward()
    for name, parameter in policy.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_the_loss_falls_when_trained(policy):
    policy.train()
    optimizer = torch.optim.Adam(policy.parameters(), 1e-2)
    data, draws = batch(policy), policy.draw(32, generator())
    first = policy(*data, draws)
    for _ in range(30):
        optimizer.zero_grad()
        policy(*data, draws).backward()
        optimizer.step()
    assert policy(*data, draws) < first - 0.01


class Reach(gymnasium.Env):
    """An environment of five steps for evaluators."""

    observation_space = spaces.Box(-10, 10, (OBSERVATION,), np.float32)
    action_space = SPACES.action

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 5
        return self.np_random.normal(size=OBSERVATION).astype(np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.left -= 1
        return self.np_random.normal(size=OBSERVATION).astype(np.float32), 1.0, self.left == 0, False, {}


@pytest.mark.filterwarnings("ignore:Evaluation environment is not wrapped")
def test_stable_baselines_evaluates_it(policy):
    mean, deviation = evaluate_policy(policy, Reach(), n_eval_episodes=3, deterministic=False)
    assert (mean, deviation) == (5.0, 0.0)


def test_wrong_input_is_refused_by_name(policy):
    seen = observations(2)
    nan = seen.copy()
    nan[1, 3] = np.nan
    with pytest.raises(ValueError, match=r"NaN in dims \[3\]"):
        policy.act(nan)
    with pytest.raises(ValueError, match=r"observations must be \(4,\)"):
        policy.act(np.zeros(5))
    with pytest.raises(ValueError, match="command and mask go together"):
        policy.act(seen, command=np.zeros(3))
    with pytest.raises(ValueError, match=r"command\[1\] = 2.5 lies outside the action space \[-2.0, 2.0\]"):
        policy.act(seen, np.full(3, 2.5), mask([1]))
    with pytest.raises(ValueError, match=r"\(3,\) or \(2, 3\)"):
        policy.act(seen, np.zeros((4, 3)), np.ones((4, 3), bool))
    with pytest.raises(ValueError, match="booleans"):
        policy.act(seen, np.zeros(3), [0.5, 0, 0])
    with pytest.raises(ValueError, match=r"command\[2\] is NaN"):
        policy.act(seen, [0.0, 0.0, np.nan], mask([2]))
    with pytest.raises(ValueError, match=r"command\[0\] = inf lies outside"):
        policy.act(seen, np.array([1e300, 0.0, 0.0]), mask([0]))
    for given, held in ((np.zeros(1), mask([0])), (np.zeros(3), np.ones((2, 1), bool))):  # no silent broadcast
        with pytest.raises(ValueError, match=r"\(3,\) or \(2, 3\)"):
            policy.act(seen, given, held)
    with pytest.raises(ValueError, match="arrays of numbers, got dict"):
        policy.act({"observation": seen})


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_names_of_keywords_work_with_a_warning():
    policy, seen, command = make("mac"), observations(2), np.full((2, ACTION), 0.25, np.float32)
    with pytest.warns(DeprecationWarning, match="act: 'given' is deprecated, use 'command' instead") as warned:
        action = policy.act(seen, given=command, given_mask=mask([0]), deterministic=True)
    assert len(warned) == 2
    assert warned[0].filename == __file__
    np.testing.assert_array_equal(action, policy.act(seen, command, mask([0]), deterministic=True))
    with pytest.warns(DeprecationWarning, match="step: 'given_mask' is deprecated, use 'mask'"):
        stepped, _ = policy.step(seen, None, command=command, given_mask=mask([0]), deterministic=True)
    np.testing.assert_array_equal(stepped, action)
    with pytest.warns(DeprecationWarning, match="log_prob: 'query_mask' is deprecated, use 'query'"):
        likelihood = policy.log_prob(seen, action, given_mask=mask([0]), query_mask=mask([2]))
    np.testing.assert_array_equal(likelihood, policy.log_prob(seen, action, given=mask([0]), query=mask([2])))
    with pytest.raises(ValueError, match="'given_mask' is the old name of 'mask'"):
        policy.act(seen, command, mask=mask([0]), given_mask=mask([0]))
    with pytest.raises(TypeError):
        policy.log_prob(seen, action, mask([0]), mask([2]))  # two masks side by side could be swapped unnoticed


def test_no_rows_get_no_actions(policy):
    assert policy.act(np.zeros((0, OBSERVATION))).shape == (0, ACTION)


def test_observations_of_double_precision_are_read_as_single(policy):
    seen = observations(4)
    assert (policy.act(seen.astype(np.float64), deterministic=True) == policy.act(seen, deterministic=True)).all()


def test_an_unknown_setting_names_the_nearest():
    with pytest.raises(ValueError, match="'width'"):
        make("bc", widht=3)
    with pytest.raises(ValueError, match="evidence_noise must be at least 0"):
        make("mac", evidence_noise=-1.0)
    with pytest.raises(ValueError, match="unknown weights 'edgy'"):
        make("mac", weights="edgy")
    with pytest.raises(ValueError, match="temperature must be at least 0"):
        make("mac", temperature=float("inf"))
    with pytest.raises(ValueError, match="execute must be in"):
        make("bc", execute=2)
    with pytest.raises(ValueError, match="order must name each entry once, got 0 twice"):
        make("mac", order=[0, 0, 1])
    with pytest.raises(ValueError, match="nothing is left to fill in"):
        make("mac", subsets=[[0, 1, 2]])
