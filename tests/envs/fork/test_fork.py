import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import envs  # noqa: F401
from envs.fork.environment import SIDES, Fork, demonstrator, hits_obstacle, record_fork_episode
from envs.fork.operator import ForkExpert
from mac_policy.demonstrations import Demonstrations
from mac_policy.demonstrations.episode import content_sha256
from mac_policy.operators.dims import OperatorDims


@pytest.fixture(scope="module")
def demos():
    episodes = [record_fork_episode(seed=0, index=index) for index in range(200)]
    return Demonstrations.of(episodes, name="fork", kind="scripted")


def roll_out(policy, episodes=40):
    """Shares of success and collision of `policy(observation, held values)` under an operator with a hidden side."""
    ends = []
    for index in range(episodes):
        env, operator = Fork(), ForkExpert(OperatorDims.parse(1, 2))
        operator.reset(np.ones(1, bool), np.array([index]))
        observation, info = env.reset(seed=5000 + index)
        done = False
        while not done:
            command = operator(observation[None]).values[0]
            observation, _, done, _, info = env.step(policy(observation, command))
        ends.append((info["success"], info["collision"]))
    return tuple(np.mean(ends, axis=0))


def neighbours(demos, query, columns, k=40):
    """Rows of the k demonstrated steps nearest to `query` in the observation (and actions) given by `columns`."""
    known = np.hstack([demos.observations, demos.actions])[:, columns]
    return np.argsort(np.linalg.norm((known - query) / known.std(0), axis=1))[:k]


def test_it_is_a_gymnasium_environment():
    env = gymnasium.make("mac_policy/fork-v0", render_mode="rgb_array")
    check_env(env.unwrapped)
    assert isinstance(gymnasium.make(env.spec).unwrapped, Fork)


@pytest.mark.parametrize("side", SIDES)
def test_the_demonstrator_passes_on_either_side(side):
    success, collision = roll_out(lambda o, _: demonstrator(o, SIDES[side]))
    assert (success, collision) == (1.0, 0.0)


def test_demonstrations_have_two_modes_of_the_same_weight(demos):
    beside_obstacle = np.array([episode.observations[7, 1] for episode in demos.episodes])
    assert np.abs(beside_obstacle).min() > 0.5
    assert 0.4 < (beside_obstacle > 0).mean() < 0.6
    assert all(episode.completed == ("goal",) for episode in demos.episodes)


def test_nothing_tells_the_modes_apart_before_the_decision(demos):
    before = np.array([episode.observations[3] for episode in demos.episodes])
    decision = np.array([episode.actions[3, 0] for episode in demos.episodes])
    assert set(np.round(decision)) == {-1.0, 1.0}
    spread = before[:, 1].std()
    assert abs(before[decision > 0, 1].mean() - before[decision < 0, 1].mean()) < spread


def test_straight_on_hits_the_obstacle():
    success, collision = roll_out(lambda *_: np.zeros(2))
    assert (success, collision) == (0.0, 1.0)


def test_the_mean_action_hits_the_obstacle(demos):
    def mean(observation, _):
        return demos.actions[neighbours(demos, observation, [0, 1])].mean(0)

    assert roll_out(mean) == (0.0, 1.0)


def test_a_fill_that_does_not_ask_the_operator_fails(demos):
    def fill(observation, held):
        rear = demos.actions[neighbours(demos, observation, [0, 1]), 1].mean()
        return np.array([held[0], rear])

    success, collision = roll_out(fill)
    assert success < 0.1
    assert collision > 0.9


def test_a_fill_that_knows_the_operators_thruster_succeeds(demos):
    def fill(observation, held):
        query = np.append(observation, held[0])
        rear = demos.actions[neighbours(demos, query, [0, 1, 2], k=10), 1].mean()
        return np.array([held[0], rear])

    assert roll_out(fill) == (1.0, 0.0)


def test_a_demonstration_depends_on_seed_and_index_alone():
    def sha(seed, index):
        return content_sha256([record_fork_episode(seed=seed, index=index)])

    assert sha(1, 2) == sha(1, 2)
    assert len({sha(1, 2), sha(1, 3), sha(2, 2)}) == 3


def test_labels_are_clean_and_what_was_executed_is_kept():
    episode = record_fork_episode(seed=0, index=0)
    assert np.abs(episode.executed - episode.actions).max() > 0
    np.testing.assert_array_equal(episode.actions[:3], 0)
    env = Fork()
    observation, _ = env.reset(seed=episode.seed)
    for step, action in enumerate(episode.executed):
        np.testing.assert_array_equal(observation, episode.observations[step])
        observation, *_ = env.step(action)


def test_a_way_between_two_points_is_checked_too():
    """Both ends are beside the obstacle's corner; the straight way cuts it."""
    assert hits_obstacle(np.array([0.55, 0.46]), np.array([0.65, 0.6]))
    assert not hits_obstacle(np.array([0.55, 0.56]), np.array([0.65, 0.6]))


def test_an_expert_hides_its_side_and_holds_its_dims():
    operator = ForkExpert(OperatorDims.parse([1], 2))
    sides = set()
    for seed in range(20):
        operator.reset(np.ones(1, bool), np.array([seed]))
        values, mask = operator(np.array([[0.3, 0.0]]))
        sides.add(float(values[0, 0]))
    assert sides == {-1.0, 1.0}
    assert mask.tolist() == [[False, True]]


@pytest.mark.parametrize("action", [np.zeros(3), np.array([0.0, np.nan])])
def test_a_wrong_action_is_refused(action):
    env = Fork()
    env.reset(seed=0)
    with pytest.raises(ValueError, match="2 finite numbers"):
        env.step(action)


def test_wrong_names_are_refused():
    with pytest.raises(ValueError, match="render_mode is 'human'"):
        Fork("human")
