"""A person may say what is wanted: through the action, at reset, or by a call; what is not said is inferred."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from mac_policy import ActionFilter, VectorActionFilter
from mac_policy.common.labels import Ahead
from mac_policy.filter.filler import Filler
from mac_policy.policies.registry import make_policy
from tests.evaluation.small_environments import LENGTH, Line
from tests.policies.conftest import ACTION, LABELS, OBSERVATION, SMALL, SPACES, make

NO_MASK = np.zeros(ACTION, np.int8)
ZEROS = SPACES.action.low * 0


def labelled(**settings):
    return make("mac", labelled=True, **settings)


def report(env, action):
    return env.step(action)[-1]["action_filter"]


def test_the_action_has_an_entry_for_each_label():
    env = ActionFilter(Line(), labelled())
    assert env.action_space["task"] == spaces.Discrete(4, start=-1)
    assert env.action_space["side"] == spaces.Discrete(3, start=-1)
    assert ActionFilter(Line(), labelled(), 2).action_space.shape == (2,)
    assert set(ActionFilter(Line(), make("mac")).action_space) == {"action", "mask"}


@pytest.mark.parametrize("dims", [None, 2], ids=str)
def test_gymnasiums_checker_passes(dims):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(ActionFilter(Line(), labelled(), dims), skip_render_check=True)


def test_what_an_action_says_is_assumed_and_counts_for_that_step():
    policy, line = labelled(), Line()
    env = ActionFilter(line, policy, deterministic=True)
    seen, _ = env.reset(seed=0)
    action = {"action": ZEROS, "mask": NO_MASK, "task": 1, "side": -1}
    found = report(env, action)
    assert found["assumed/task"] == 1
    np.testing.assert_array_equal(found["belief/task"], [0, 1, 0])
    assert found["belief/side"].sum() == pytest.approx(1)
    np.testing.assert_array_equal(line.taken[0], policy.act(seen, labels={"task": "light"}, deterministic=True))


def test_a_filter_with_fixed_dims_is_told_at_reset_and_by_say():
    env = ActionFilter(Line(), labelled(), 2)
    env.reset(seed=0, options={"labels": {"task": "none", "side": "left"}})
    for _ in range(2):
        found = report(env, np.zeros(2, np.float32))
        assert (found["assumed/task"], found["assumed/side"]) == (2, 0)
    env.say(task="kettle")
    found = report(env, np.zeros(2, np.float32))
    assert found["assumed/task"] == 0
    np.testing.assert_array_equal(found["belief/task"], [1, 0, 0])
    env.say(task=None)
    assert 0 < report(env, np.zeros(2, np.float32))["belief/task"].max() < 1  # inferred again
    env.reset()
    assert report(env, np.zeros(2, np.float32))["belief/side"].max() < 1  # a new episode, nothing said


@pytest.mark.parametrize("said", [{"task": "ketle"}, {"tsk": "kettle"}, {"task": 7}, "kettle"], ids=str)
def test_a_wrong_word_is_refused_before_anything_moves(said):
    env = ActionFilter(Line(), labelled(), 2)
    with pytest.raises(ValueError, match="label"):
        env.reset(options={"labels": said})
    env.reset(seed=0)
    if isinstance(said, dict):
        with pytest.raises(ValueError, match="label"):
            env.say(**said)


@pytest.mark.parametrize("said", [9, -2, 0.5, "kettle", None, [0, 1]], ids=str)
def test_a_wrong_code_in_an_action_counts_as_unsaid_and_never_stops_the_robot(said):
    line = Line()
    env = ActionFilter(line, labelled())
    env.reset(seed=0)
    with pytest.warns(RuntimeWarning, match="names no class"):
        found = report(env, {"action": ZEROS, "mask": NO_MASK, "task": said})
    assert env.counts["unknown"] == 1
    assert 0 < found["belief/task"].max() < 1
    assert np.isfinite(line.taken[0]).all()


class Options(Line):
    """Remembers the options of its last reset."""

    def reset(self, *, seed=None, options=None):
        self.options = options
        return super().reset(seed=seed)


def test_the_environments_own_options_reach_it():
    inner = Options()
    ActionFilter(inner, labelled(), 2).reset(options={"labels": {"task": "kettle"}, "start": "left"})
    assert inner.options == {"start": "left"}
    ActionFilter(inner, make("mac"), 2).reset(options={"labels": "the environment's"})
    assert inner.options == {"labels": "the environment's"}


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=str)
def test_a_vector_says_row_by_row(mode):
    rows = 3
    vector = SyncVectorEnv([Line] * rows, autoreset_mode=mode)
    env = VectorActionFilter(vector, labelled())
    env.reset(seed=0, options={"labels": {"side": ["left", None, "right"]}})
    action = {"action": np.tile(ZEROS, (rows, 1)), "mask": np.tile(NO_MASK, (rows, 1)), "task": np.array([0, -1, 2])}
    found = report(env, action)
    assert found["assumed/task"][[0, 2]].tolist() == [0, 2]
    assert found["assumed/side"][[0, 2]].tolist() == [0, 1]
    assert found["belief/side"].shape == (rows, 2)
    assert found["belief/side"][1].max() < 1
    env.say(side=["right", "right", None])
    assert report(env, action)["assumed/side"][:2].tolist() == [1, 1]
    if mode is not AutoresetMode.DISABLED:
        for _ in range(LENGTH):
            report(env, action)
        assert env.completion.filler._state.beliefs[1].max() < 1  # what was said ended with the episode


def test_one_label_is_said_and_the_other_stays():
    env = ActionFilter(Line(), labelled(), 2)
    env.reset(seed=0, options={"labels": {"task": "kettle"}})
    env.say(side="right")
    found = report(env, np.zeros(2, np.float32))
    assert (found["assumed/task"], found["assumed/side"]) == (0, 1)
    env.say(task=None)
    found = report(env, np.zeros(2, np.float32))
    assert found["belief/task"].max() < 1
    assert found["assumed/side"] == 1


def test_a_nan_observation_leaves_the_belief_as_it_was():
    policy = labelled(horizon=3, execute=3, plans=0.5)
    filler = Filler(policy, batch=2)
    seen, nothing = np.full((2, OBSERVATION), 2.0, np.float32), np.zeros((2, ACTION), bool)
    filler(seen, np.zeros((2, ACTION)), nothing, {"task": "light"})
    bad = seen.copy()
    bad[0] = np.nan
    with pytest.warns(RuntimeWarning, match="NaN"):
        found = filler(bad, np.zeros((2, ACTION)), nothing)
    assert found.beliefs[0][0].tolist() == [0.0, 1.0, 0.0]
    assert found.beliefs[0][1].max() < 1
    assert found.assumed[0].tolist() == [-1, -1]
    first = Filler(policy, batch=1)
    with pytest.warns(RuntimeWarning, match="NaN"):
        assert np.isnan(first(bad[:1], np.zeros((1, ACTION)), nothing[:1]).beliefs[0]).all()


def test_a_failed_call_reports_no_belief_of_another_episode():
    policy = labelled()
    filler = Filler(policy)
    seen, nothing = np.full((1, OBSERVATION), 2.0, np.float32), np.zeros((1, ACTION), bool)
    filler(seen, np.zeros((1, ACTION)), nothing, {"task": "light"})
    filler.reset(np.array([True]))
    policy.step = None
    with pytest.warns(RuntimeWarning, match="failed"):
        found = filler(seen, np.zeros((1, ACTION)), nothing)
    assert np.isnan(found.beliefs[0]).all()
    assert found.assumed.tolist() == [[-1, -1]]


def test_one_row_that_is_not_told_does_not_stop_the_others():
    policy = make_policy("bc", SPACES._replace(labels=LABELS), SMALL["bc"])
    filler = Filler(policy, batch=3)
    with pytest.warns(RuntimeWarning, match="NaN"):
        found = filler(
            np.zeros((3, OBSERVATION), np.float32),
            np.zeros((3, ACTION)),
            np.zeros((3, ACTION), bool),
            {"task": ["kettle", None, "light"], "side": "left"},
        )
    assert found.fallback.tolist() == [False, True, False]


def test_what_is_said_between_two_episodes_counts_for_the_next():
    env = VectorActionFilter(SyncVectorEnv([Line], autoreset_mode=AutoresetMode.NEXT_STEP), labelled(), 2)
    env.reset(seed=0)
    for _ in range(LENGTH):
        env.step(np.zeros((1, 2), np.float32))
    env.say(task="kettle")  # the episode has ended, the next step resets
    env.step(np.zeros((1, 2), np.float32))
    assert report(env, np.zeros((1, 2), np.float32))["assumed/task"].tolist() == [0]


def test_what_is_said_between_two_episodes_of_one_environment_counts_for_the_next():
    env = ActionFilter(Line(), labelled(), 2)
    env.say(task="light")  # before the first episode
    env.reset(seed=0)
    assert report(env, np.zeros(2, np.float32))["assumed/task"] == 1
    env.reset(seed=0)  # the episode before ends without a last step
    belief = report(env, np.zeros(2, np.float32))["belief/task"]
    for _ in range(LENGTH - 1):
        env.step(np.zeros(2, np.float32))
    env.say(task="kettle")
    env.reset(seed=0)
    assert belief.max() < 1
    assert report(env, np.zeros(2, np.float32))["assumed/task"] == 0


class Unplugged(Line):
    """Raises while it is reset, whenever it is told to."""

    broken = False

    def reset(self, *, seed=None, options=None):
        if self.broken:
            raise ConnectionError("no answer")
        return super().reset(seed=seed)


def test_nothing_is_left_of_an_episode_when_the_reset_after_it_raises():
    line = Unplugged()
    env = ActionFilter(line, labelled())
    env.reset(seed=0)
    env.say(task="light")
    action = {"action": ZEROS, "mask": NO_MASK}
    env.step(action)
    line.broken = True
    with pytest.raises(ConnectionError):
        env.reset()
    with pytest.warns(RuntimeWarning, match="observation"):
        found = report(env, action)
    assert found["cause"] == "blind"
    np.testing.assert_array_equal(env.completion._said, [[-1, -1]])


def test_labels_of_a_reset_leave_others_that_were_said_before_it():
    env = ActionFilter(Line(), labelled(), 2)
    env.say(task="light", side="left")
    env.reset(seed=0, options={"labels": {"side": "right"}})
    found = report(env, np.zeros(2, np.float32))
    assert (found["assumed/task"], found["assumed/side"]) == (1, 1)


def test_rows_equal_single_environments():
    policy = labelled(horizon=3, execute=3, plans=0.5)
    vector = VectorActionFilter(SyncVectorEnv([Line] * 2), policy, deterministic=True)
    single = [ActionFilter(Line(), policy, deterministic=True) for _ in range(2)]
    vector.reset(seed=5)
    for i, env in enumerate(single):
        env.reset(seed=5 + i)
    random = np.random.default_rng(0)
    for _ in range(LENGTH - 1):
        action = {
            "action": random.uniform(SPACES.action.low, SPACES.action.high, (2, ACTION)).astype(np.float32),
            "mask": random.integers(0, 2, (2, ACTION)).astype(np.int8),
            "task": random.integers(-1, 3, 2),
            "side": random.integers(-1, 2, 2),
        }
        both = report(vector, action)
        for i, env in enumerate(single):
            one = report(env, {name: values[i] for name, values in action.items()})
            np.testing.assert_allclose(both["belief/task"][i], one["belief/task"], atol=1e-4)
            np.testing.assert_allclose(both["action"][i], one["action"], atol=2e-4)


def test_a_policy_that_has_to_be_told_stands_still_until_it_is():
    policy = make_policy("bc", SPACES._replace(labels=LABELS), SMALL["bc"])
    env = ActionFilter(Line(), policy, 1)
    env.reset(seed=0)
    with pytest.warns(RuntimeWarning, match="has to be told"):
        assert report(env, np.zeros(1, np.float32))["fallback"]
    env.say(task="kettle", side="left")
    found = report(env, np.zeros(1, np.float32))
    assert not found["fallback"]
    assert "belief/task" not in found


def test_a_label_may_not_take_the_name_of_an_entry():
    label = LABELS[0].__class__("mask", ("a", "b"))
    policy = make_policy("mac", SPACES._replace(labels=(label,)), SMALL["mac"])
    with pytest.raises(ValueError, match="'mask'"):
        ActionFilter(Line(), policy)
    assert isinstance(ActionFilter(Line(), policy, 1), gymnasium.Wrapper)


# ---- labels of real values ----

NUMBERS = (Ahead("x", 0, 5), Ahead("y", 2, 5))
UNTOLD = {"action": ZEROS, "mask": NO_MASK, "task": -1, "x": np.float32(0), "y": np.float32(0)}


def with_numbers(kind="mac", labels=(LABELS[0], *NUMBERS)):
    policy = make_policy(kind, SPACES._replace(labels=labels), SMALL[kind])
    policy.normalizer.observation_low.fill_(-4.0)
    policy.normalizer.observation_high.fill_(5.0)
    return policy


def test_the_action_has_a_box_for_each_number_and_says_which_count():
    space = ActionFilter(Line(), with_numbers()).action_space
    assert space["x"] == spaces.Box(-4, 5, (), np.float32)
    assert space["said"] == spaces.MultiBinary(2)
    assert space["task"] == spaces.Discrete(4, start=-1)
    assert not space["x"].contains(np.array(np.nan, np.float32))  # why there is an entry that says which count
    assert "said" not in ActionFilter(Line(), labelled()).action_space.spaces


@pytest.mark.parametrize("dims", [None, 2], ids=str)
def test_gymnasiums_checker_passes_with_numbers(dims):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(ActionFilter(Line(), with_numbers(), dims), skip_render_check=True)


def test_a_number_that_an_action_says_reaches_the_policy_for_that_step():
    policy, line = with_numbers(), Line()
    env = ActionFilter(line, policy, deterministic=True)
    seen, _ = env.reset(seed=0)
    found = report(env, UNTOLD | {"x": np.float32(1.5), "y": np.float32(2.5), "said": np.array([1, 0], np.int8)})
    assert found["assumed/x"] == 1.5
    assert np.isnan(found["assumed/y"])
    assert isinstance(found["assumed/task"], int)
    assert "belief/x" not in found
    np.testing.assert_array_equal(line.taken[0], policy.act(seen, labels={"x": 1.5}, deterministic=True))
    assert np.isnan(report(env, UNTOLD | {"said": np.zeros(2, np.int8)})["assumed/x"])
    assert env.counts["unknown"] == 0


@pytest.mark.parametrize(
    ("entries", "expected", "wrong"),
    [
        ({"x": 99.0, "said": [1, 0]}, 5.0, 0),  # clipped to the demonstrated range
        ({"x": 1.0}, 1.0, 0),  # without the entry "said" numbers count
        ({"x": np.nan}, np.nan, 0),
        ({"x": np.nan, "said": [1, 1]}, np.nan, 0),
        ({"x": np.inf, "said": [1, 0]}, np.nan, 1),
        ({"x": np.inf, "said": [0, 0]}, np.nan, 0),
        ({"x": "left", "said": [1, 0]}, np.nan, 1),
        ({"x": [1.0, 2.0], "said": [1, 0]}, np.nan, 1),
        ({"x": 1.0, "said": [1]}, np.nan, 1),
        ({"x": 1.0, "said": [2, 0]}, np.nan, 1),
        ({"x": 1.0, "said": None}, np.nan, 1),
    ],
    ids=str,
)
def test_a_wrong_number_in_an_action_counts_as_unsaid_and_never_stops_the_robot(entries, expected, wrong):
    line = Line()
    env = ActionFilter(line, with_numbers())
    env.reset(seed=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = report(env, {"action": ZEROS, "mask": NO_MASK, **entries})
    np.testing.assert_equal(float(found["assumed/x"]), expected)
    assert env.counts["unknown"] == wrong
    assert bool(caught) == bool(wrong)
    assert not found["fallback"]


def test_numbers_are_told_at_reset_and_by_say():
    env = ActionFilter(Line(), with_numbers(), 2)
    env.reset(seed=0, options={"labels": {"x": 1.0, "y": -2.0}})
    env.say(y=None, task="light")
    found = report(env, np.zeros(2, np.float32))
    assert (found["assumed/x"], found["assumed/task"]) == (1.0, 1)
    assert np.isnan(found["assumed/y"])
    env.reset()
    assert np.isnan(report(env, np.zeros(2, np.float32))["assumed/x"])
    for wrong in ({"x": 99.0}, {"x": np.inf}, {"x": "left"}):
        with pytest.raises(ValueError, match="label 'x'"):
            env.say(**wrong)
        with pytest.raises(ValueError, match="label 'x'"):
            env.reset(options={"labels": wrong})


def test_a_vector_says_numbers_row_by_row():
    env = VectorActionFilter(SyncVectorEnv([Line] * 3), with_numbers())
    env.reset(seed=0, options={"labels": {"y": [1.0, None, 2.0]}})
    action = {
        "action": np.tile(ZEROS, (3, 1)),
        "mask": np.tile(NO_MASK, (3, 1)),
        "x": np.array([0.5, 1.5, 2.5], np.float32),
        "said": np.array([[1, 0], [0, 0], [1, 0]], np.int8),
    }
    found = report(env, action)
    np.testing.assert_array_equal(found["assumed/x"], [0.5, np.nan, 2.5])
    np.testing.assert_array_equal(found["assumed/y"], [1.0, np.nan, 2.0])


def test_a_policy_that_has_to_be_told_a_number_warms_up_and_acts():
    policy = with_numbers("bc", NUMBERS)
    filler = Filler(policy, batch=2, deadline_ms=5000)
    seen, nothing = np.zeros((2, OBSERVATION), np.float32), np.zeros((2, ACTION), bool)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = filler(seen, np.zeros((2, ACTION)), nothing, {"x": 1.0, "y": [0.0, 2.0]})
    assert found.beliefs == ()
    assert found.assumed.tolist() == [[1.0, 0.0], [1.0, 2.0]]


def test_a_number_may_not_take_the_name_of_an_entry():
    policy = with_numbers(labels=(Ahead("said", 0, 5),))
    with pytest.raises(ValueError, match="'said'"):
        ActionFilter(Line(), policy)
