"""Tasks' environments and experts as they are handed to rollouts."""

import pickle
from dataclasses import dataclass

import gymnasium
import numpy as np
import pytest

from envs.kitchen.rendering import first_working_backend
from envs.task_environment import TaskEnvironment, TaskExpert
from mac_policy.evaluation.group import Job, run_job
from mac_policy.evaluation.rollout import Rollout
from mac_policy.evaluation.teams import Team
from mac_policy.operators.choice import OperatorChoice
from mac_policy.operators.dims import OperatorDims
from mac_policy.operators.registry import make_kind
from mac_policy.policies.checkpoint import save_policy
from mac_policy.policies.registry import make_policy
from mac_policy.policies.saved import SavedPolicy
from mac_policy.policies.spaces import Spaces


@dataclass(frozen=True)
class ShortKitchen(TaskEnvironment):
    """The kitchen for a few steps."""

    def __call__(self):
        return gymnasium.wrappers.TimeLimit(super().__call__(), 5)


def test_the_real_kitchen_with_its_expert_and_a_policy(tmp_path):
    env = ShortKitchen("kitchen-complete", start="randomised")
    made = env()
    policy = make_policy("mac", Spaces.of(made.observation_space, made.action_space), {"width": 8, "query_width": 8})
    filler = SavedPolicy.of(save_policy(policy, tmp_path / "mac-s0"))
    dims = OperatorDims.parse([0, 4, 8], 9)
    expert = OperatorChoice(make_kind("expert"), dims, expert=TaskExpert("kitchen-complete"))
    what = Rollout(env, 2, together=2)
    records = run_job(what, Job(Team("operator+mac", 0, filler, expert), "0", 0, 2))
    assert [record.steps for record in records] == [5, 5]
    assert set(records[0].masks) == {"100010001"}
    zeros = run_job(what, Job(Team("zeros", None, None, expert), "0", 0, 2))
    commanded = [[record[0].actions[0][dim] for dim in (0, 4, 8)] for record in (records, zeros)]
    assert commanded[0] == commanded[1]  # the same start, the same intent
    assert run_job(what, Job(Team("operator+mac", 0, filler, expert), "0", 0, 2))[0].actions == records[0].actions


def test_a_policys_observations_choose_the_view():
    assert TaskEnvironment.seen_by("kitchen-mixed", 59).observation == "full"
    assert TaskEnvironment.seen_by("kitchen-mixed", 30, "randomised", 0.1) == TaskEnvironment(
        "kitchen-mixed", "qpos", "randomised", 0.1
    )


def test_what_episodes_depend_on_is_told():
    one = TaskEnvironment("kitchen-mixed", start="randomised", joint_std=0.1)
    assert pickle.loads(pickle.dumps(one)) == one
    assert one.identity()["joint_std"] == 0.1
    assert one.identity() != TaskEnvironment("kitchen-mixed").identity()
    assert "joint_std" not in TaskEnvironment("kitchen-mixed").identity()
    assert (one.best, TaskEnvironment("fork").best) == (4.0, 1.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"task": "kitchen-mixd"}, "did you mean 'kitchen-mixed'"),
        ({"task": "kitchen-mixed", "start": "offical"}, "did you mean 'official'"),
        ({"task": "kitchen-mixed", "joint_std": -1}, "joint_std must be a number of radians >= 0, got -1"),
        ({"task": "fork", "start": "randomised"}, "the fork knows only its official start"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_built(settings, message):
    with pytest.raises(ValueError, match=message):
        TaskEnvironment(**settings)


def test_the_forks_expert_has_a_side_in_mind_that_its_seed_decides():
    expert = TaskExpert("fork")([TaskEnvironment("fork")()] * 6, OperatorDims.parse(1, 2))
    near = np.tile([0.35, 0.0], (6, 1))
    expert.reset(np.ones(6, bool), np.arange(6))
    sides = expert(near).values[:, 0]
    assert set(sides) == {-1.0, 1.0}
    expert.reset(np.ones(6, bool), np.arange(6)[::-1])
    assert (expert(near).values[:, 0] == sides[::-1]).all()


@pytest.mark.skipif(first_working_backend() is None, reason="nothing here can draw without a screen")
def test_the_quickly_drawn_kitchen_is_a_picture():
    env = TaskEnvironment("kitchen-complete", size=64)()
    env.reset(seed=0)
    first = env.render()
    assert first.shape == (64, 64, 3)
    assert first.std() > 10
    assert (env.render() == first).all()
    env.close()
