"""The kitchen and the fork as tasks: their data, environments, experts and replays."""

import os
import pickle
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium_robotics.envs.franka_kitchen import kitchen_env

from envs.fork.task import ForkTask
from envs.kitchen.demonstrator import plan_episode
from envs.kitchen.environment import make
from envs.kitchen.goals import GOAL_SETS, GOALS, NEAR, VIEWS, kitchen_completions
from envs.kitchen.rendering import first_working_backend
from envs.kitchen.task import KITCHENS, OFFICIAL, KitchenTask
from mac_policy.demonstrations import read_d4rl
from mac_policy.evaluation.group import Job, run_job
from mac_policy.evaluation.rollout import Rollout
from mac_policy.evaluation.teams import OperatorChoice, Team
from mac_policy.operators.dims import OperatorDims
from mac_policy.operators.registry import make_kind
from mac_policy.policies.checkpoint import SavedPolicy, save_policy
from mac_policy.policies.registry import make_policy
from mac_policy.policies.spaces import Spaces
from mac_policy.tasks import TASKS, MinariTask, TaskEnvironment
from mac_policy.tasks.replay import film, play, save_film

COMPLETE = Path(os.environ.get("MAC_DATA", "")) / "d4rl" / "mini_kitchen_microwave_kettle_light_slider-v0.hdf5"


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "store"))
    monkeypatch.setenv("D4RL_DATASET_DIR", str(tmp_path / "d4rl"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("MAC_DATA", raising=False)


def test_every_kitchen_goal_set_says_where_its_data_are():
    assert {*OFFICIAL, "kitchen-intent"} == set(GOAL_SETS)
    for name in OFFICIAL:
        task = TASKS[name].data
        assert re.fullmatch("[0-9a-f]{64}", task.official.sha256)
        assert task.official.url.endswith(task.official.file_name)
        assert task.minari_id == f"D4RL/kitchen/{name.removeprefix('kitchen-')}-v2"


def test_every_task_is_registered_by_its_name():
    assert {task.name for task in KITCHENS} | {"fork", "minari"} <= {*TASKS}
    assert all(TASKS[task.name] is task for task in KITCHENS)


def test_the_views_of_the_data_are_those_of_the_environment():
    for view in VIEWS:
        columns = make("kitchen-mixed", observation=view).unwrapped.view
        np.testing.assert_array_equal(KitchenTask("kitchen-mixed").data.select(view)(59), columns)


def test_the_goals_are_those_of_the_environment():
    assert set(GOALS) == set(kitchen_env.OBS_ELEMENT_GOALS)
    assert kitchen_env.BONUS_THRESH == NEAR
    for task, (columns, goal) in GOALS.items():
        assert np.arange(30)[columns].tolist() == kitchen_env.OBS_ELEMENT_INDICES[task].tolist()
        assert goal == tuple(kitchen_env.OBS_ELEMENT_GOALS[task])


def test_reading_demonstrations_loads_no_simulator():
    code = "import sys, envs; print(sorted({'mujoco', 'torch', 'd4rl'} & set(sys.modules)))"
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
    for find in (TASKS.find, KitchenTask):
        with pytest.raises(ValueError, match=r"unknown task 'kitchen-mxed'.*did you mean 'kitchen-mixed'"):
            find("kitchen-mxed")


def test_a_minari_task_needs_an_id():
    with pytest.raises(ValueError, match="needs dataset="):
        MinariTask().load_demonstrations()


def test_human_data_that_are_not_there_are_not_made_up():
    with pytest.raises(ValueError, match="minari download D4RL/kitchen/mixed-v2"):
        KitchenTask("kitchen-mixed").load_demonstrations(source="human")


def test_scripted_kitchen_demonstrations_serve_both_views_and_replay_the_same():
    """One recording of two episodes for all of it: it takes seconds."""
    task = KitchenTask("kitchen-mixed")
    qpos = task.load_demonstrations(source="scripted", episodes=2)
    full = task.with_options(observation="full").load_demonstrations(source="scripted")
    assert (qpos.observation_dim, full.observation_dim) == (30, 59)
    np.testing.assert_array_equal(full.observations[:, VIEWS["qpos"][59]], qpos.observations)
    assert qpos.source.kind == "scripted"
    episode = qpos.episodes[0]
    assert np.abs(episode.executed - episode.actions).max() > 0
    *_, info = play(task, make("kitchen-mixed", terminate_on_tasks_completed=False), episode)
    assert set(info["completed"]) == set(episode.completed) & set(GOAL_SETS["kitchen-mixed"])
    assert set(episode.completed) <= set(kitchen_completions(episode.observations))


def test_a_fork_demonstration_replays_and_is_filmed(tmp_path):
    demos = ForkTask().load_demonstrations(episodes=2)
    frames, completed = film(ForkTask(), demos.episodes[1], 64)
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
        film(KitchenTask("kitchen-mixed"), ForkTask().data.scripted.record(seed=0, index=0), 64)


def test_a_task_without_an_environment_is_not_filmed():
    with pytest.raises(ValueError, match=r"video needs the environment of a task; D4RL/pen/human-v2 has none"):
        film(MinariTask(dataset="D4RL/pen/human-v2"), ForkTask().data.scripted.record(seed=0, index=0), 64)


@pytest.mark.skipif(not COMPLETE.is_file(), reason="MAC_DATA does not name a folder with the real kitchen files")
def test_human_demonstrations_replayed_complete_their_tasks():
    """Open loop from their own first states the 19 episodes complete two tasks of four on average."""
    task = KitchenTask("kitchen-complete")
    demos = read_d4rl(COMPLETE, select=task.data.select("qpos"))
    env = make("kitchen-complete", terminate_on_tasks_completed=False)
    completed = []
    for episode in demos.episodes[:3]:
        *_, info = play(task, env, episode)
        completed.append(len(info["completed"]))
    assert sum(completed) >= 8


def test_another_order_of_the_tasks_is_another_scripted_set():
    usual = KitchenTask("kitchen-complete").data
    task = usual.in_order("random")
    assert task.scripted_id == "mac-policy/kitchen-complete-random-scripted-v0"
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
        KitchenTask("kitchen-complete").load_demonstrations(order="random")
    with pytest.raises(ValueError, match="demonstrations of fork have only one order"):
        ForkTask().load_demonstrations(order="random")
    with pytest.raises(ValueError, match=r"'sideways'.*canonical"):
        KitchenTask("kitchen-complete").load_demonstrations(order="sideways")


def test_an_order_can_be_changed_again():
    data = KitchenTask("kitchen-complete").data
    for order in ("random", "canonical", "default"):
        again = data.in_order("canonical").in_order(order)
        assert again.order == order
        assert again.scripted_id == data.in_order(order).scripted_id
        assert again.scripted.record is data.in_order(order).scripted.record


@dataclass(frozen=True)
class ShortKitchen(KitchenTask):
    """The kitchen for a few steps."""

    def make(self, size=None):
        return gymnasium.wrappers.TimeLimit(super().make(size), 5)


def test_the_real_kitchen_with_its_expert_and_a_policy(tmp_path):
    task = ShortKitchen("kitchen-complete", start="randomised")
    env = task.environment_for()
    made = env()
    policy = make_policy("mac", Spaces.of(made.observation_space, made.action_space), {"width": 8, "query_width": 8})
    filler = SavedPolicy.of(save_policy(policy, tmp_path / "mac-s0"))
    dims = OperatorDims.parse([0, 4, 8], 9)
    expert = OperatorChoice(make_kind("expert"), dims, task=task)
    what = Rollout(env, 2, together=2)
    records = run_job(what, Job(Team("operator+mac", 0, filler, expert), "0", 0, 2))
    assert [record.steps for record in records] == [5, 5]
    assert set(records[0].masks) == {"100010001"}
    zeros = run_job(what, Job(Team("zeros", None, None, expert), "0", 0, 2))
    commanded = [[record[0].actions[0][dim] for dim in (0, 4, 8)] for record in (records, zeros)]
    assert commanded[0] == commanded[1]  # the same start, the same intent
    assert run_job(what, Job(Team("operator+mac", 0, filler, expert), "0", 0, 2))[0].actions == records[0].actions


def test_a_policys_observations_choose_the_view():
    moved = KitchenTask("kitchen-mixed", "full", "randomised", 0.1)
    assert KitchenTask("kitchen-mixed").environment_for(59).task.observation == "full"
    assert moved.environment_for(30).task == KitchenTask("kitchen-mixed", "qpos", "randomised", 0.1)
    assert moved.environment_for().task is moved


def test_what_episodes_depend_on_is_told():
    usual = KitchenTask("kitchen-mixed")
    one = usual.with_options(start="randomised", joint_std=0.1).environment_for()
    assert pickle.loads(pickle.dumps(one)) == one
    assert hash(pickle.loads(pickle.dumps(one))) == hash(one)
    assert one.identity()["joint_std"] == 0.1
    assert one.identity() != usual.identity()
    assert "joint_std" not in usual.identity()
    assert (usual.best_reward, ForkTask().best_reward) == (4.0, 1.0)


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("kitchen-mixed", {"observation": "qpo"}, r"unknown task\.observation 'qpo'.*did you mean 'qpos'"),
        ("kitchen-mixed", {"start": "offical"}, r"unknown task\.start.*did you mean 'official'"),
        ("kitchen-mixed", {"joint_std": -1}, r"task\.joint_std must be at least 0 and finite, got -1"),
        ("kitchen-mixed", {"strt": "official"}, "option of task=kitchen-mixed 'strt'.*did you mean 'start'"),
        ("fork", {"start": "randomised"}, "unknown option of task=fork 'start'"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_built(task, options, message):
    with pytest.raises(ValueError, match=message):
        TASKS[task].with_options(options)


def test_the_forks_expert_has_a_side_in_mind_that_its_seed_decides():
    expert = ForkTask().expert([ForkTask().make()] * 6, OperatorDims.parse(1, 2))
    near = np.tile([0.35, 0.0], (6, 1))
    expert.reset(np.ones(6, bool), np.arange(6))
    sides = expert(near).values[:, 0]
    assert set(sides) == {-1.0, 1.0}
    expert.reset(np.ones(6, bool), np.arange(6)[::-1])
    assert (expert(near).values[:, 0] == sides[::-1]).all()


@pytest.mark.skipif(first_working_backend() is None, reason="nothing here can draw without a screen")
def test_the_quickly_drawn_kitchen_is_a_picture():
    env = TaskEnvironment(KitchenTask("kitchen-complete"), size=64)()
    env.reset(seed=0)
    first = env.render()
    assert first.shape == (64, 64, 3)
    assert first.std() > 10
    assert (env.render() == first).all()
    env.close()
