"""A task of a user's own, in a folder outside the package: found by name, recorded, made, rolled out by its expert."""

import json
import os
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from mac_policy.demonstrations.collect import collect_into_store
from mac_policy.evaluation.group import Job, run_job
from mac_policy.evaluation.rollout import Rollout
from mac_policy.evaluation.teams import OperatorChoice, Team
from mac_policy.operators.dims import OperatorDims
from mac_policy.operators.registry import make_kind
from mac_policy.tasks import TASKS, register_task
from mac_policy.tasks.replay import play

MY_TASKS = '''
"""Reach a point: the action is a displacement."""
from dataclasses import dataclass

import gymnasium
import numpy as np
from gymnasium import spaces

from mac_policy.demonstrations import Episode, Scripted, TaskData
from mac_policy.operators.operator import HoldingOperator
from mac_policy.tasks import Task

BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)


class Reach(gymnasium.Env):
    def __init__(self, steps=5):
        self.observation_space, self.action_space, self.steps = spaces.Box(-9.0, 9.0, (2,), np.float32), BOX, steps

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left, self.place = self.steps, self.np_random.uniform(-3, 3, 2).astype(np.float32)
        return self.place.copy(), {}

    def step(self, action):
        self.left, self.place = self.left - 1, self.place + np.clip(action, -1, 1).astype(np.float32)
        done = bool(np.abs(self.place).max() < 0.1)
        info = {"completed": ("centre",) if done else ()}
        return self.place.copy(), float(done), done, self.left == 0, info


def expert(observation):
    return np.clip(-observation, -1, 1)


def record(*, seed, index):
    env = Reach()
    reset = 1000 * seed + index
    seen, actions, rewards, ended = [env.reset(seed=reset)[0]], [], [], False
    while not ended:
        actions.append(expert(seen[-1]))
        observation, reward, done, late, info = env.step(actions[-1])
        seen.append(observation)
        rewards.append(reward)
        ended = done or late
    last = np.arange(len(actions)) == len(actions) - 1
    return Episode(np.stack(seen), np.stack(actions), np.array(rewards, np.float32), last & done, last & (not done),
                   completed=info["completed"], seed=reset)


class ReachExpert(HoldingOperator):
    def values(self, observations):
        return expert(observations)


@dataclass(frozen=True)
class ReachTask(Task):
    name: str = "reach"
    steps: int = 5
    goals = ("centre",)

    @property
    def data(self):
        return TaskData("reach", action_space=BOX, scripted=Scripted(record, episodes=4, modules=(__name__,)))

    def make(self, size=None):
        return Reach(self.steps)

    def expert(self, environments, dims):
        return ReachExpert(dims, len(environments))


REACH = ReachTask()
'''


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lab")
    (folder / "task_lab").mkdir()
    (folder / "task_lab" / "__init__.py").write_text("")
    (folder / "task_lab" / "tasks.py").write_text(MY_TASKS)
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))
    TASKS._kinds.pop("task_lab.tasks:REACH", None)


@pytest.fixture
def task(lab, tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "store"))
    return TASKS.find("task_lab.tasks:REACH")


def test_its_demonstrations_are_recorded_once_and_name_their_code(task):
    demos = task.load_demonstrations()
    assert (len(demos), demos.source.kind, demos.source.name) == (4, "scripted", "mac-policy/reach-scripted-v0")
    assert task.load_demonstrations(episodes=2).source.sha256 == demos.source.sha256
    metadata = json.loads((Path(demos.source.location) / "data" / "metadata.json").read_text())
    assert metadata["demonstrator_sha256"] == task.data.scripted.demonstrator != ""
    assert task.action_space_of(demos) == task.action_space == gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    assert task.folder_name(demos) == "reach"


def test_it_is_recorded_in_worker_processes(task, tmp_path):
    folder = collect_into_store(task.data.scripted, "lab/reach-v0", workers=2)
    assert folder == tmp_path / "store" / "lab" / "reach-v0"


def test_a_recorded_episode_replays_to_what_it_completed(task):
    episode = task.data.scripted.record(seed=3, index=1)
    *_, info = play(task, task.make(), episode)
    assert info["completed"] == episode.completed == ("centre",)


def test_its_environment_has_its_options_and_travels_to_workers(task):
    longer = task.with_options(steps=50).environment_for(2)
    assert longer().unwrapped.steps == 50
    assert pickle.loads(pickle.dumps(longer)) == longer
    assert longer.identity() == {"task": "reach", "steps": 50, "code": task.code()}
    assert longer.identity() != task.environment_for().identity()


def test_its_expert_is_an_operator_of_rollouts(task):
    expert = OperatorChoice(make_kind("expert"), OperatorDims.parse(2, 2), task=task)
    what = Rollout(task.environment_for(), 3, together=3)
    records = run_job(what, Job(Team("zeros", None, None, expert), "0", 0, 3))
    assert [record.completed for record in records] == [("centre",)] * 3


def test_wrong_names_and_options_are_refused(task):
    with pytest.raises(ValueError, match=r"'task_lab\.tasks:REECH' cannot be imported"):
        TASKS.find("task_lab.tasks:REECH")
    with pytest.raises(ValueError, match=r"unknown option of task=reach 'step'.*did you mean 'steps'"):
        task.with_options(step=3)
    with pytest.raises(ValueError, match=r"must be an instance of mac_policy\.tasks\.Task"):
        register_task(type(task))


def test_it_is_known_by_name_in_a_program_that_registers_it(lab):
    code = """
        from mac_policy.tasks import TASKS, register_task
        from task_lab.tasks import REACH
        register_task(REACH)
        print(TASKS.find("reach") is REACH)
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(lab), *sys.path])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == "True"
