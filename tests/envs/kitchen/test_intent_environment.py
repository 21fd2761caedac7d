"""The kitchen with an intent, in the simulator: what counts, when it ends, who wants what."""

import numpy as np
import pytest

from envs.kitchen.environment import make
from envs.kitchen.goals import CANONICAL_ORDER, GOALS, KETTLE, LIGHT_SWITCH, MICROWAVE, TOP_BURNER
from envs.kitchen.intent import intent_of_seed
from envs.kitchen.intent_task import HELD_OUT_EVERY, IntentTask, human_files
from mac_policy.operators.dims import OperatorDims

TASK = IntentTask()


@pytest.fixture(scope="module")
def env():
    made = TASK.make()
    yield made
    made.close()


def put(env, *tasks):
    """Move the objects of tasks to where they are completed."""
    data = env.unwrapped.data
    for task in tasks:
        columns, target = GOALS[task]
        data.qpos[columns] = target


def test_a_seed_decides_the_intent_and_no_observation_shows_it(env):
    first, info = env.reset(seed=5)
    assert info["intent"] == intent_of_seed(5)
    assert env.reset(seed=5)[1]["intent"] == info["intent"]
    stated, told = env.reset(seed=5, options={"intent": [KETTLE]})
    assert told["intent"] == (KETTLE,)
    np.testing.assert_array_equal(stated, first)
    assert TASK.with_options(start="randomised").make().reset(seed=5)[1]["intent"] == info["intent"]
    assert env.reset()[1]["intent"] != env.reset()[1]["intent"] or env.reset()[1]["intent"] != info["intent"]


def test_wanted_tasks_count_in_any_order_and_unwanted_ones_do_not(env):
    env.reset(seed=0, options={"intent": [KETTLE, MICROWAVE, LIGHT_SWITCH]})
    put(env, MICROWAVE, TOP_BURNER)
    _, reward, terminated, _, info = env.step(np.zeros(9))
    assert (reward, terminated) == (1.0, False)
    assert info["wanted"] == (MICROWAVE,)
    assert info["unwanted"] == (TOP_BURNER,)
    assert info["completed"] == (MICROWAVE, TOP_BURNER)
    put(env, KETTLE)
    env.unwrapped.want([MICROWAVE, KETTLE])  # the light is not wanted any more
    _, reward, terminated, _, info = env.step(np.zeros(9))
    assert (reward, terminated, info["is_success"]) == (1.0, True, True)
    assert info["changed_at"] == 1
    assert info["followed_after"] == 1


def test_other_tasks_than_the_wanted_ones_do_not_end_an_episode(env):
    env.reset(seed=0, options={"intent": [KETTLE]})
    put(env, *(name for name in CANONICAL_ORDER if name != KETTLE))
    _, reward, terminated, _, info = env.step(np.zeros(9))
    assert (reward, terminated) == (0.0, False)
    assert len(info["unwanted"]) >= 5  # the simulator moves what was put into each other


def test_the_expert_wants_what_the_environment_wants_and_says_it(env):
    seen, info = env.reset(seed=3)
    operator = TASK.expert([env], OperatorDims.parse(9, 9))
    operator.reset(seeds=3)
    assert operator.orders == [info["intent"]]
    assert operator.wanted() == [info["intent"][0]]
    operator(seen)
    put(env, info["intent"][0])
    env.step(np.zeros(9))
    assert operator.wanted() == [info["intent"][1]]


def test_an_operator_that_holds_nothing_still_says_what_it_wants(env):
    env.reset(seed=3)
    operator = TASK.expert([env], OperatorDims.parse(0, 9))
    operator.reset(seeds=3)
    for name in intent_of_seed(3):
        assert not operator(np.zeros(30)).mask.any()
        assert operator.wanted() == [name]
        put(env, name)
        env.step(np.zeros(9))
    assert operator.wanted() == ["none"]


def test_a_change_of_mind_is_drawn_from_the_seed_and_changes_what_counts(env):
    found = []
    for _ in range(2):
        seen, info = env.reset(seed=7)
        operator = TASK.expert([env], OperatorDims.parse(0, 9), changes_mind=True)
        operator.reset(seeds=7)
        while info["changed_at"] is None:
            operator(seen)
            seen, *_, info = env.step(np.zeros(9))
        found.append((info["changed_at"], info["intent"]))
        assert operator.wanted() == [info["intent"][0]]
        assert info["intent"][0] != intent_of_seed(7)[0]
    assert found[0] == found[1]
    assert 30 <= found[0][0] < 150


def test_a_cooperative_operator_wants_the_nearest_task(env):
    env.reset(seed=0, options={"intent": [TOP_BURNER, MICROWAVE]})
    stubborn = TASK.expert([env], OperatorDims.parse(9, 9))
    kind = TASK.expert([env], OperatorDims.parse(9, 9), cooperative=True)
    for operator in (stubborn, kind):
        operator.reset(seeds=0)
        operator(np.zeros(30))
    assert stubborn.wanted() == [TOP_BURNER]
    away = dict.fromkeys((TOP_BURNER, MICROWAVE), env.unwrapped.data)
    from envs.kitchen.strokes import distances_to

    nearest = distances_to(env.unwrapped.data, list(away))
    assert kind.wanted() == [min(nearest, key=nearest.get)]


def test_a_cooperative_operator_that_only_says_pursues_what_it_says(env):
    said = []
    for dims in (9, 0):
        env.reset(seed=0, options={"intent": [TOP_BURNER, MICROWAVE]})
        operator = TASK.expert([env], OperatorDims.parse(dims, 9), cooperative=True)
        operator.reset(seeds=0)
        wishes = []
        for step in range(40):
            command = operator(np.zeros(30))
            assert dims or not command.mask.any()
            wishes += operator.wanted()
            env.step(np.sin(0.3 * step + np.arange(9)).astype(np.float32))
        said.append(wishes)
    assert said[0] == said[1]


def test_without_an_intent_the_environment_is_the_kitchen(env):
    """The physics, the observation and the noise are those of the other kitchens."""
    plain = make(CANONICAL_ORDER, terminate_on_tasks_completed=False)
    rng = np.random.default_rng(0)
    seen, other = env.reset(seed=2)[0], plain.reset(seed=2)[0]
    for _ in range(5):
        np.testing.assert_array_equal(seen, other)
        action = rng.uniform(-1, 1, 9)
        seen, other = env.step(action)[0], plain.step(action)[0]
    plain.close()


def test_missing_human_files_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("MAC_DATA", str(tmp_path))
    with pytest.raises(ValueError, match=r"has no d4rl/mini_kitchen.*set MAC_DATA"):
        TASK.load_demonstrations(source="human")


def has_files():
    try:
        return bool(human_files())
    except ValueError:
        return False


@pytest.mark.skipif(not has_files(), reason="MAC_DATA does not name a folder with both human files")
def test_human_episodes_are_trained_on_or_played_back_and_labelled():
    trained, recorded = TASK.load_demonstrations(source="human"), TASK.recordings()
    assert (len(trained), len(recorded)) == (33, 8)
    assert len(trained) + len(recorded) == 41 == len(recorded) * HELD_OUT_EVERY + 1
    assert trained.labels.shape == (trained.steps, 1)
    every = {episode.observations.tobytes() for part in (trained, recorded) for episode in part.episodes}
    assert len(every) == 41
    assert {frozenset(e.completed) for e in recorded.episodes} == {
        frozenset(("microwave", "kettle", "light switch", "slide cabinet")),
        frozenset(("kettle", "bottom burner", "light switch", "hinge cabinet")),
    }
