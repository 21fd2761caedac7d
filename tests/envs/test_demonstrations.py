"""The tasks' demonstrations: where they are published, and that a replay does what the recording did."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from gymnasium_robotics.envs.franka_kitchen import kitchen_env

from envs.demonstrations import GOALS, NEAR, OFFICIAL, TASKS, kitchen_completions, load_demonstrations, task_data
from envs.kitchen.demonstrator import plan_episode
from envs.kitchen.environment import VIEWS, make
from envs.kitchen.goals import GOAL_SETS
from envs.kitchen.replay import make_for_replay, play, replay, save_film
from mac_policy.demonstrations import read_d4rl

COMPLETE = Path(os.environ.get("MAC_DATA", "")) / "d4rl" / "mini_kitchen_microwave_kettle_light_slider-v0.hdf5"


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "store"))
    monkeypatch.setenv("D4RL_DATASET_DIR", str(tmp_path / "d4rl"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("MAC_DATA", raising=False)


def test_every_kitchen_goal_set_says_where_its_data_are():
    assert set(OFFICIAL) == set(GOAL_SETS)
    for name in GOAL_SETS:
        task = task_data(name)
        assert re.fullmatch("[0-9a-f]{64}", task.official.sha256)
        assert task.official.url.endswith(task.official.file_name)
        assert task.minari_id == f"D4RL/kitchen/{name.removeprefix('kitchen-')}-v2"


def test_every_task_has_its_configuration():
    configs = Path(__file__).parents[2] / "configs" / "task"
    assert {path.stem for path in configs.glob("*.yaml")} == {*TASKS, "minari"}


def test_the_views_of_the_data_are_those_of_the_environment():
    raw = np.arange(59)
    for view, columns in VIEWS.items():
        np.testing.assert_array_equal(raw[task_data("kitchen-mixed").select(view)(59)], raw[columns])


def test_the_goals_are_those_of_the_environment():
    assert set(GOALS) == set(kitchen_env.OBS_ELEMENT_GOALS)
    assert kitchen_env.BONUS_THRESH == NEAR
    for task, (columns, goal) in GOALS.items():
        assert np.arange(30)[columns].tolist() == kitchen_env.OBS_ELEMENT_INDICES[task].tolist()
        assert goal == tuple(kitchen_env.OBS_ELEMENT_GOALS[task])


def test_reading_demonstrations_loads_no_simulator():
    code = "import sys, envs.demonstrations as d; print(sorted({'mujoco', 'torch', 'd4rl'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_completions_agree_with_the_environment():
    env = make("kitchen-complete", terminate_on_tasks_completed=False)
    observation, _ = env.reset(seed=0)
    assert kitchen_completions(observation[None]) == {}
    done = observation.copy()
    done[22] = -0.75
    done[17:19] = (-0.69, -0.05)
    assert kitchen_completions(np.stack([observation, done, observation])) == {"light switch": 1, "microwave": 1}


def test_an_unknown_task_names_the_nearest():
    with pytest.raises(ValueError, match=r"unknown task 'kitchen-mxed'.*did you mean 'kitchen-mixed'"):
        task_data("kitchen-mxed")


def test_a_minari_task_needs_an_id():
    with pytest.raises(ValueError, match="needs dataset="):
        load_demonstrations("minari")


def test_human_data_that_are_not_there_are_not_made_up():
    with pytest.raises(ValueError, match="minari download D4RL/kitchen/mixed-v2"):
        load_demonstrations("kitchen-mixed", source="human")


def test_scripted_kitchen_demonstrations_serve_both_views_and_replay_the_same():
    """One recording of two episodes for all of it: it takes seconds."""
    qpos = load_demonstrations("kitchen-mixed", source="scripted", episodes=2)
    full = load_demonstrations("kitchen-mixed", source="scripted", observation="full")
    assert (qpos.observation_dim, full.observation_dim) == (30, 59)
    np.testing.assert_array_equal(full.observations[:, VIEWS["qpos"]], qpos.observations)
    assert qpos.source.kind == "scripted"
    episode = qpos.episodes[0]
    assert np.abs(episode.executed - episode.actions).max() > 0
    *_, info = play(make("kitchen-mixed", terminate_on_tasks_completed=False), episode)
    assert set(info["completed"]) == set(episode.completed) & set(GOAL_SETS["kitchen-mixed"])
    assert set(episode.completed) <= set(kitchen_completions(episode.observations))


def test_a_fork_demonstration_replays_and_is_filmed(tmp_path):
    demos = load_demonstrations("fork", episodes=2)
    env = make_for_replay("fork", 64)
    frames, completed = replay(env, demos.episodes[1])
    assert completed == ("goal",)
    assert len(frames) == 13
    for name in ("film.gif", "film.mp4"):
        save_film(frames, str(tmp_path / name))
        assert (tmp_path / name).stat().st_size > 1000


def test_a_renderer_that_does_not_work_is_a_clean_error(monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError("neither egl nor osmesa works here")

    monkeypatch.setattr("envs.kitchen.environment.make", broken)
    with pytest.raises(ValueError, match="kitchen-mixed cannot be rendered here: neither egl nor osmesa"):
        make_for_replay("kitchen-mixed", 64)


def test_a_task_without_an_environment_is_not_filmed():
    with pytest.raises(ValueError, match="video needs the environment of a task"):
        make_for_replay("D4RL/pen/human-v2", 64)


@pytest.mark.skipif(not COMPLETE.is_file(), reason="MAC_DATA does not name a folder with the real kitchen files")
def test_human_demonstrations_replayed_complete_their_tasks():
    """Open loop from their own first states the 19 episodes complete two tasks of four on average."""
    demos = read_d4rl(COMPLETE, select=task_data("kitchen-complete").select("qpos"))
    env = make("kitchen-complete", terminate_on_tasks_completed=False)
    completed = []
    for episode in demos.episodes[:3]:
        *_, info = play(env, episode)
        completed.append(len(info["completed"]))
    assert sum(completed) >= 8


def test_another_order_of_the_tasks_is_another_scripted_set():
    task = task_data("kitchen-complete", order="random")
    assert task.scripted_id == "mac-policy/kitchen-complete-random-scripted-v0"
    usual = task_data("kitchen-complete")
    assert usual.scripted_id == "mac-policy/kitchen-complete-scripted-v0"
    planned = {plan_episode("kitchen-complete", seed=0, index=i, order="random").order for i in range(20)}
    assert len(planned) > 5
    index = next(
        i
        for i in range(20)
        if plan_episode("kitchen-complete", seed=0, index=i, order="random").order[0] != "microwave"
    )
    done = task.scripted.record(seed=0, index=index).completed
    assert done[0] == plan_episode("kitchen-complete", seed=0, index=index, order="random").order[0]


def test_an_order_is_for_scripted_kitchen_demonstrations():
    with pytest.raises(ValueError, match="source=scripted, not auto"):
        load_demonstrations("kitchen-complete", order="random")
    with pytest.raises(ValueError, match="fork has one order alone"):
        task_data("fork", order="random")
    with pytest.raises(ValueError, match=r"'sideways'.*canonical"):
        task_data("kitchen-complete", order="sideways")
