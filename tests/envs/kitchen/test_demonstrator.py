"""The scripted demonstrator: reproducible, the same from outside, and it does its tasks."""

import numpy as np
import pytest

from envs.kitchen import control
from envs.kitchen import environment as kitchen
from envs.kitchen.demonstrator import ScriptedExpert, add_arm_noise, plan_episode, record_episode, recording_kitchen
from envs.kitchen.goals import CANONICAL_ORDER
from envs.kitchen.strokes import MANOEUVRES, is_done

SHORT = {"seed": 3, "index": 5, "max_steps": 60}
HELD_OUT = 5000


def assert_same_bytes(one, other):
    for name in ("observations", "actions", "executed", "rewards", "terminations", "truncations"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name
    assert one.completed == other.completed


def test_same_seed_and_index_give_the_same_bytes_whatever_came_before():
    first = record_episode("kitchen-mixed", **SHORT)
    record_episode("kitchen-complete", seed=0, index=0, max_steps=40)
    assert_same_bytes(first, record_episode("kitchen-mixed", **SHORT))
    recording_kitchen.cache_clear()
    assert_same_bytes(first, record_episode("kitchen-mixed", **SHORT))


def test_another_index_is_another_episode():
    first = record_episode("kitchen-mixed", **SHORT)
    other = record_episode("kitchen-mixed", **(SHORT | {"index": 6}))
    assert first.actions.tobytes() != other.actions.tobytes()


def test_shapes_and_flags():
    episode = record_episode("kitchen-mixed", observation="full", **SHORT)
    assert episode.observations.shape == (61, 59)
    assert episode.actions.shape == episode.executed.shape == (60, 9)
    for array in (episode.observations, episode.actions, episode.executed, episode.rewards):
        assert array.dtype == np.float32
    assert not episode.terminations.any()
    assert episode.truncations.tolist() == [False] * 59 + [True]
    assert np.abs(episode.executed).max() <= 1
    assert np.abs(episode.actions).max() <= 1


def test_labels_are_clean_and_the_noise_is_on_the_arm_alone():
    quiet = record_episode("kitchen-mixed", noise=0.0, **SHORT)
    assert quiet.executed.tobytes() == quiet.actions.tobytes()
    noisy = record_episode("kitchen-mixed", noise=0.2, **SHORT)
    difference = noisy.executed - noisy.actions
    inside = np.abs(noisy.executed[:, :7]) < 1
    assert 0.15 < difference[:, :7][inside].std() < 0.25
    assert np.abs(difference[:, 7:]).max() == 0


def stretches(there):
    """The lengths of the stretches of True in a row of bools."""
    ends = np.flatnonzero(np.diff(np.concatenate([[0], there.astype(int), [0]])))
    return np.diff(ends)[::2]


def test_detours_change_what_is_executed_and_the_labels_show_the_way_back():
    direct = record_episode("kitchen-intent", seed=HELD_OUT, index=0, noise=0.0)
    carried = record_episode("kitchen-intent", seed=HELD_OUT, index=0, noise=0.0, detours=0.05, max_steps=340)
    elsewhere = (carried.executed != carried.actions).any(1)
    first = int(elsewhere.argmax())
    assert 0 < elsewhere.mean() < 0.5
    assert stretches(elsewhere).max() <= 20 * 2  # a detour may follow another one
    for name in ("actions", "executed"):  # up to the first detour nothing is changed, and no random stream either
        np.testing.assert_array_equal(getattr(carried, name)[:first], getattr(direct, name)[:first])
    assert len(carried) > len(direct)
    assert carried.completed == direct.completed


def test_detours_are_the_same_each_time_and_wrong_ones_are_named():
    first, again = (record_episode("kitchen-intent", detours=0.2, **SHORT) for _ in range(2))
    assert_same_bytes(first, again)
    with pytest.raises(ValueError, match=r"probability from 0 to 1, got 3"):
        record_episode("kitchen-intent", detours=3, **SHORT)


def test_noise_levels_are_drawn_from_the_range():
    drawn = [plan_episode("kitchen-mixed", seed=0, index=i).noise for i in range(200)]
    assert 0.05 <= min(drawn) < 0.07
    assert 0.33 < max(drawn) <= 0.35
    assert plan_episode("kitchen-mixed", seed=0, index=0, noise=0.08).noise == 0.08


def test_acting_step_by_step_from_outside_gives_what_is_recorded():
    recorded = record_episode("kitchen-partial", seed=HELD_OUT, index=1, max_steps=120)
    plan = plan_episode("kitchen-partial", seed=HELD_OUT, index=1)
    env = kitchen.make("kitchen-partial", terminate_on_tasks_completed=False)
    expert = ScriptedExpert()
    observation, _ = env.reset(seed=plan.start_seed)
    expert.reset(plan.order, plan.expert_rng)
    for t in range(120):
        action = expert.act(observation, env.unwrapped)
        np.testing.assert_array_equal(action, recorded.actions[t])
        observation, *_ = env.step(add_arm_noise(action, plan.noise, plan.noise_rng))
        np.testing.assert_array_equal(observation, recorded.observations[t + 1])


def test_acting_does_not_disturb_the_simulation():
    env = kitchen.make("kitchen-complete").unwrapped
    env.reset(seed=0)
    expert = ScriptedExpert()
    expert.reset(["microwave", "kettle"], np.random.default_rng(0))
    for _ in range(30):
        before = env.data.qpos.copy(), env.data.qvel.copy(), env.data.ctrl.copy()
        action = expert.act(None, env)
        for was, now in zip(before, (env.data.qpos, env.data.qvel, env.data.ctrl), strict=True):
            np.testing.assert_array_equal(was, now)
        env.step(action)


def test_finished_expert_holds_the_arm_up():
    env = kitchen.make("kitchen-complete").unwrapped
    env.reset(seed=0)
    env.data.qpos[22] = -0.75
    expert = ScriptedExpert()
    expert.reset(["microwave"], np.random.default_rng(0))
    start = env.data.qpos[:7].copy()
    for _ in range(40):
        env.step(expert.act(None, env))
    assert expert.finished
    assert np.abs(env.data.qpos[:7] - start).max() < 0.15


@pytest.mark.parametrize("task", CANONICAL_ORDER)
def test_every_task_alone(task):
    done = [record_episode([task], seed=HELD_OUT, index=i, noise=0.08).completed for i in range(2)]
    assert all(task in completed for completed in done)


@pytest.mark.parametrize("index", range(3))
def test_chains_of_four_on_seeds_never_tuned_on(index):
    plan = plan_episode("kitchen-mixed", seed=HELD_OUT, index=index, noise=0.08)
    episode = record_episode("kitchen-mixed", seed=HELD_OUT, index=index, noise=0.08)
    assert len(set(plan.order) & set(episode.completed)) >= 3
    goals = {"microwave", "kettle", "bottom burner", "light switch"}
    assert episode.rewards.sum() == len(goals & set(episode.completed))


def test_starts_varied_on_request():
    episode = record_episode("kitchen-complete", start="randomised", **SHORT)
    official = record_episode("kitchen-complete", **SHORT)
    assert np.abs(episode.observations[0] - official.observations[0]).max() > 0.02


def test_done_is_the_environments_own_rule():
    env = kitchen.make(list(CANONICAL_ORDER), terminate_on_tasks_completed=False).unwrapped
    env.reset(seed=0)
    assert not any(is_done(task, env.data) for task in CANONICAL_ORDER)
    assert set(MANOEUVRES) == set(CANONICAL_ORDER)
    env.data.qpos[22] = -0.46
    assert is_done("microwave", env.data)
    env.data.qpos[22] = -0.44
    assert not is_done("microwave", env.data)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"task": "kitchen-mixd"}, "'kitchen-mixd'.*did you mean 'kitchen-mixed'"),
        ({"order": "canonic"}, "order 'canonic'.*'default', 'random', 'canonical'.*did you mean 'canonical'"),
        ({"noise": -0.1}, "noise .*-0.1"),
        ({"noise": (0.3, 0.1)}, "noise .*0.3, 0.1"),
        ({"max_steps": 0}, "max_steps .*0"),
        ({"observation": "pos"}, "observation 'pos'"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        record_episode(**({"task": "kitchen-mixed", "seed": 0, "index": 0} | settings))


def test_unknown_goals_of_an_operator_are_named():
    with pytest.raises(ValueError, match=r"'kettl'.*did you mean 'kettle'"):
        ScriptedExpert().reset(["kettl"], np.random.default_rng(0))


@pytest.mark.parametrize("sensors", ["stock", "d4rl"])
def test_the_quick_ways_change_no_byte(sensors, monkeypatch):
    """Joints looked up by name and numpy's own cross product give the same episode."""
    options = {"seed": 3, "index": 5, "observation": "full", "sensors": sensors, "max_steps": 120}
    quick = record_episode("kitchen-intent", **options)
    recording_kitchen.cache_clear()
    slow = recording_kitchen("full", "official", 0.05, sensors).unwrapped.inner.robot_env
    del slow._get_obs  # that of FrankaRobot
    monkeypatch.setattr(control, "cross", np.cross)
    assert_same_bytes(quick, record_episode("kitchen-intent", **options))
    recording_kitchen.cache_clear()
