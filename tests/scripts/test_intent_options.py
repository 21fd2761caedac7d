"""Options of the experiment about intents: a mistake is one line, before anything is rolled out."""

import numpy as np
import pytest
from gymnasium import spaces

from envs.kitchen.intent_task import IntentTask
from mac_policy.policies.checkpoint import save_policy
from mac_policy.policies.registry import make_policy
from mac_policy.policies.spaces import Spaces
from tests.scripts.helpers import run_here

TASK = IntentTask()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Untrained policies where the experiment looks for them."""
    made = tmp_path_factory.mktemp("user")
    for run in TASK.experiment.runs:
        known = Spaces.of(
            spaces.Box(-1, 1, (30,), np.float32), TASK.action_space, TASK.actions, TASK.labels * run.labels
        )
        policy = make_policy(run.kind, known, {"width": 8}, 0)
        save_policy(policy, made / "runs" / TASK.name / f"{run.run}-s{run.seed}", dataset={"source": "scripted"})
    return made


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["task.intent=[kettel]"], "unknown kitchen task 'kettel'"),
        (["task.intent=[kettle,kettle]"], "names 'kettle' twice: name each task once"),
        (["task.intent=[]"], "task.intent is empty: name one or more of microwave"),
        (["task.intent=kettle"], "write task.intent=[kettle]"),
        (["task.intent=[light switch,kettel]"], "did you mean 'kettle'"),
        (["task.wanted=9"], "task.wanted=9 is more than the kitchen's 7 tasks: give fewer"),
        (["operator.slow=0"], "operator.slow must be a whole number of at least 1, got 0"),
        (["operator.lets_go=2"], "operator.lets_go must be in [0, 1], got 2"),
        (["operator.slwo=3"], "did you mean 'operator.slow'"),
        (["operator=noisy", "operator.inner=expert", "operator.slow=0"], "operator.slow must be a whole number"),
        (["operator=bc", "operator.cooperative=true"], "needs operator=expert; a 'bc' operator has no intent"),
        (["operator=replay"], "set MAC_DATA to a folder that holds both"),
        (["operator=bc", "arms=[mac-told]"], "a 'bc' operator says nothing; operator=expert does"),
        (["arms=[operator+mac-unaware-told]"], "mac-unaware-s0 was trained without labels"),
        (["arms=[operator+mca-told]"], "unknown policy in arms 'mca'"),
        (["operator_dims=nune"], "operator_dims = 'nune' cannot be used"),
        (["task=kitchen-mixed", "arms=[mac-told]"], "the task has no labels"),
        (["task=kitchen-mixed", "operator=expert", "operator.changes_mind=true"], "has no such manner"),
    ],
    ids=str,
)  # fmt: skip
def test_a_mistake_is_one_line(folder, options, message):
    code, out, err = run_here("shared_autonomy", "task=kitchen-intent", *options, cwd=folder)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert message in err
    assert len(err.splitlines()) == 1
