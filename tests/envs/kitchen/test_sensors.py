"""The kitchen's sensors: D4RL's noise on D4RL's physics, and the official episodes replayed by their targets."""

import dataclasses
import os
import pickle
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import envs  # noqa: F401
from envs.kitchen.environment import make
from envs.kitchen.sensors import D4RL_NOISE
from envs.kitchen.targets import SCALE, replay_targets, targets, towards
from mac_policy.tasks import TASKS

HOLD = np.zeros(9, np.float32)


@pytest.fixture(scope="module")
def d4rl():
    return make("kitchen-complete", sensors="d4rl").unwrapped


def readings(env, count=60):
    """Readings less the simulator's positions, (count, 30)."""
    env.reset(seed=0)
    return np.stack([env.step(HOLD)[0] - env.data.qpos for _ in range(count)])


def test_the_noise_is_d4rls_on_every_position(d4rl):
    amplitudes = np.r_[[0.1] * 9, [0.005] * 2, [0.0005] * 6, [0.005] * 3, [0.1] * 3, [0.005] * 3, [0.1] * 3, 0.005]
    np.testing.assert_allclose(D4RL_NOISE, 0.1 * amplitudes)
    noise = np.abs(readings(d4rl)) / D4RL_NOISE
    assert noise.max() <= 1 + 1e-2
    assert (noise.max(0) > 0.8).all()


def test_stock_sensors_are_untouched_and_ten_times_as_quiet():
    noise = np.abs(readings(make("kitchen-complete").unwrapped))
    assert noise[:, :9].max() <= 0.001 + 1e-6


def test_policy_control_law_and_judge_see_the_same_reading(d4rl):
    observation, _ = d4rl.reset(seed=3)
    for _ in range(3):
        np.testing.assert_allclose(observation[:9], d4rl.inner.robot_env._last_robot_qpos, atol=1e-6)
        seen = d4rl.inner._get_obs  # the judge's positions are those of the observation
        raw = seen(np.zeros(18))
        np.testing.assert_allclose(raw["achieved_goal"]["microwave"], raw["observation"][18 + 22 - 9], atol=1e-12)
        observation = d4rl.step(HOLD)[0]


def test_a_seed_gives_the_same_readings_and_the_spec_rebuilds_the_sensors(d4rl):
    first, again = readings(d4rl, 5), readings(d4rl, 5)
    np.testing.assert_array_equal(first, again)
    rebuilt = gymnasium.make(make("kitchen-mixed", sensors="d4rl").spec)
    assert rebuilt.unwrapped.sensors == "d4rl"


def test_the_task_hands_its_sensors_to_environment_demonstrations_and_identity():
    stock = TASKS.find("kitchen-mixed")
    noisy = stock.with_options(sensors="d4rl")
    assert pickle.loads(pickle.dumps(noisy.environment_for(30)))().unwrapped.sensors == "d4rl"
    assert noisy.data.scripted_id == "mac-policy/kitchen-mixed-d4rl-sensors-scripted-v0"
    assert stock.data.scripted_id == "mac-policy/kitchen-mixed-scripted-v0"
    assert noisy.identity() != stock.identity()
    with pytest.raises(ValueError, match=r"unknown task.sensors 'd4lr'.*did you mean 'd4rl'"):
        dataclasses.replace(stock, sensors="d4lr")


def test_scripted_demonstrations_are_recorded_with_the_sensors():
    data = TASKS.find("kitchen-mixed").with_options(sensors="d4rl").data
    quiet = TASKS.find("kitchen-mixed").data.scripted.record(seed=0, index=0)
    noisy = data.scripted.record(seed=0, index=0)
    distance = np.abs(noisy.observations[0, :9] - quiet.observations[0, :9])
    assert 0.003 < distance.max() < 0.012


def test_an_action_towards_a_target_is_the_action_that_gave_it():
    rng = np.random.default_rng(0)
    reading, action = rng.normal(size=(50, 30)), rng.uniform(-1, 1, (50, 9))
    np.testing.assert_allclose(towards(targets(reading, action), reading[:, :9]), action, atol=1e-12)
    far = towards(reading[0, :9] + 5 * SCALE, reading[0, :9])
    np.testing.assert_array_equal(far, np.ones(9))


@pytest.mark.skipif(not os.environ.get("MAC_DATA"), reason="needs the official D4RL file: MAC_DATA=folder")
@pytest.mark.parametrize("sensors", ["stock", "d4rl"])
def test_every_official_episode_completes_all_four_goals_when_its_targets_are_replayed(sensors):
    path = Path(os.environ["MAC_DATA"]) / "d4rl" / "mini_kitchen_microwave_kettle_light_slider-v0.hdf5"
    demonstrations = TASKS.find("kitchen-complete").load_demonstrations(source="d4rl", path=path)
    env = make("kitchen-complete", sensors=sensors).unwrapped
    replays = []
    for number in np.unique(demonstrations.episode_index).tolist():
        rows = demonstrations.episode_index == number
        replays.append(replay_targets(env, demonstrations.observations[rows], demonstrations.actions[rows], number))
    assert [len(replay.completed) for replay in replays] == [4] * 19
    assert max(replay.residual for replay in replays) < 0.006
