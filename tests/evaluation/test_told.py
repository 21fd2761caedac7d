"""Episodes with an intent, on a small environment: what a policy is told, what it assumes, who says what counts."""

import dataclasses
from dataclasses import dataclass

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from mac_policy.common.labels import Label
from mac_policy.evaluation import group
from mac_policy.evaluation.arms import Runs, check_arms, make_teams
from mac_policy.evaluation.group import Job, run_job
from mac_policy.evaluation.report.film import render_scene
from mac_policy.evaluation.report.pictures import OPERATOR, POLICY
from mac_policy.evaluation.report.wish_rows import ROW, Wishes, draw_wishes
from mac_policy.evaluation.rollout import Rollout
from mac_policy.evaluation.teams import OperatorChoice
from mac_policy.filter.filler import Filler
from mac_policy.operators.dims import OperatorDims
from mac_policy.operators.operator import HoldingOperator
from mac_policy.operators.registry import make_kind
from mac_policy.policies.checkpoint import save_policy
from mac_policy.policies.registry import make_policy
from mac_policy.policies.spaces import Spaces
from mac_policy.tasks import Task, TaskEnvironment
from mac_policy.tasks.experiment import Experiment, PlannedRun

GOALS = ("left", "right", "up")
LABEL = Label("goal", (*GOALS, "none"))
STEPS, CHANGE = 8, 4
OBSERVED, ACTED = spaces.Box(-9, 9, (3,), np.float32), spaces.Box(-1, 1, (2,), np.float32)


class Wanted(gymnasium.Env):
    """Completes goal k at step 2k + 2, whatever is done; the seed says which goal is wanted first."""

    observation_space, action_space = OBSERVED, ACTED

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.intent, self.completed, self.steps, self.changed = (GOALS[seed % 3], "up"), (), 0, None
        return self.np_random.normal(size=3).astype(np.float32), {}

    def want(self, intent):
        self.intent, self.changed = tuple(intent), self.steps

    def step(self, action):
        self.steps += 1
        if self.steps % 2 == 0 and self.steps <= 6:
            self.completed = (*self.completed, GOALS[self.steps // 2 - 1])
        info = {"completed": self.completed, "intent": self.intent, "changed_at": self.changed}
        return np.full(3, self.steps, np.float32), 0.0, False, self.steps == STEPS, info


class Wisher(HoldingOperator):
    def __init__(self, environments, dims, changes_mind):
        super().__init__(dims, len(environments))
        self.environments, self.changes_mind = environments, changes_mind

    def wanted(self):
        left = [[name for name in env.intent if name not in env.completed] for env in self.environments]
        return [names[0] if names else "none" for names in left]

    def values(self, observations):
        for row in np.flatnonzero((self._steps == CHANGE) & self.changes_mind):
            self.environments[row].want(("up",))
        return np.full((self.batch, 2), 0.5)


@dataclass(frozen=True)
class WantedTask(Task):
    name: str = "wanted"

    labels = (LABEL,)
    goals = GOALS
    experiment = Experiment(
        operator="expert",
        runs=(PlannedRun("mac"), PlannedRun("mac", "mac-unaware", labels=False), PlannedRun("bc", "bc-told")),
        arms=("operator", "operator+mac", "operator+mac-unaware", "operator+mac-told", "mac-told", "bc-told", "mac"),
    )

    @property
    def action_space(self):
        return ACTED

    def make(self, size=None):
        return Wanted()

    def expert(self, environments, dims, *, changes_mind=False):
        return Wisher(environments, dims, changes_mind)


TASK = WantedTask()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    made = Runs(tmp_path_factory.mktemp("runs"), TASK.name, experiment=TASK.experiment)
    for run in TASK.experiment.runs:
        known = Spaces.of(OBSERVED, ACTED, None, TASK.labels if run.labels else ())
        save_policy(make_policy(run.kind, known, {"width": 8}, 0), made.run_folder(run.run, 0))
    return made


@pytest.fixture
def heard(monkeypatch):
    """The labels that the filler was given at each step."""
    said = []

    class Listening(Filler):
        def __call__(self, observations, command, mask, labels=None):
            said.append(labels)
            return super().__call__(observations, command, mask, labels)

    monkeypatch.setattr(group, "Filler", Listening)
    return said


def records(runs, arm, size=3, **settings):
    acting = OperatorChoice(make_kind("expert", settings), OperatorDims.parse(1, 2), task=TASK)
    (team,) = make_teams(check_arms([arm], runs), [0], runs, acting)
    what = Rollout(TASK.environment_for(), size, seed=300, together=size)
    return run_job(what, Job(team, what.key(team), 0, size))


def wishes(intent):
    """The class of the wish at each step, by hand: goal k is completed at the end of step 2k + 1, counted from 0."""
    found = []
    for step in range(STEPS):
        done = GOALS[: step // 2]
        found.append(next((LABEL.code(name) for name in intent if name not in done), LABEL.code("none")))
    return tuple(found)


@pytest.mark.parametrize("arm", ["operator+mac-told", "mac-told", "bc-told"])
def test_a_told_policy_hears_at_each_step_what_is_wanted_now(runs, arm, heard):
    found = records(runs, arm)
    assert np.array(heard).shape == (STEPS, 3, 1)
    for row, record in enumerate(found):
        assert record.intent == (GOALS[record.seed % 3], "up")
        assert tuple(np.array(heard)[:, row, 0]) == record.wished == wishes(record.intent)
        assert record.assumed == ()
        assert record.held_dims == (1 if arm.startswith("operator") else 0)


def test_an_untold_policy_assumes_something_by_itself_and_is_compared_with_the_wish(runs, heard):
    for record in records(runs, "operator+mac"):
        assert record.wished == wishes(record.intent)
        assert len(record.assumed) == STEPS
        assert set(record.assumed) <= set(range(-1, 4))
        assert len(record.believed) == STEPS
        assert all(0.25 <= belief <= 1 for belief in record.believed)  # of the likeliest of four
    assert heard == [None] * STEPS


def test_a_policy_with_another_label_is_not_told_and_acts_by_itself(runs):
    other = Spaces.of(OBSERVED, ACTED, labels=[Label("skill", ("reach", "grasp"))])
    save_policy(make_policy("mac", other, {"width": 8}, 0), runs.run_folder("skilled", 0), dataset={})
    with pytest.raises(
        ValueError, match=r"operator.skilled-told: the label 'skill' of .* has the classes reach, grasp"
    ):
        records(runs, "operator+skilled-told")
    for record in records(runs, "operator+skilled"):
        assert set(record.wished) == {-1}
        assert set(record.assumed) <= {0, 1}


def test_a_policy_without_labels_and_the_operator_alone_are_recorded_without_wishes(runs):
    for arm in ("operator+mac-unaware", "operator"):
        assert all(record.wished == record.assumed == () for record in records(runs, arm))
        assert all(record.intent for record in records(runs, arm))


def test_a_change_of_mind_counts_in_every_arm_and_is_told_at_once(runs):
    for arm in TASK.experiment.arms:
        for record in records(runs, arm, changes_mind=True):
            assert record.intent == ("up",)
            assert record.changed_at == CHANGE
    for record in records(runs, "mac-told", changes_mind=True):
        assert record.wished[CHANGE] == LABEL.code("up")
        assert record.wished[:CHANGE] == wishes((GOALS[record.seed % 3], "up"))[:CHANGE]


def test_the_same_group_again_is_the_same(runs):
    for arm in ("operator+mac", "operator+mac-told"):
        one, two = ([(r.actions, r.assumed, r.wished) for r in records(runs, arm)] for _ in range(2))
        assert one == two


class Drawn(Wanted):
    def render(self):
        return np.full((20, 120, 3), 7, np.uint8)


@dataclass(frozen=True)
class DrawnTask(WantedTask):
    def make(self, size=None):
        return Drawn()


def test_a_film_shows_the_wish_what_is_done_and_the_belief(runs):
    """Episode 0 wants left (done at step 2) and then up (done at step 6); right is done without being wanted."""
    record = records(runs, "operator+mac", size=1)[0]
    assert np.array(record.beliefs).shape == (STEPS, 4)
    np.testing.assert_allclose(np.sum(record.beliefs, 1), 1, atol=1e-3)
    sure = dataclasses.replace(record, beliefs=((0.0, 0.0, 1.0, 0.0),) * STEPS)
    _, frames = render_scene(TaskEnvironment(DrawnTask()), ("operator+mac", sure))
    plain = render_scene(TaskEnvironment(DrawnTask()), ("operator+mac", dataclasses.replace(record, intent=())))[1]
    np.testing.assert_array_equal(frames[:, : plain.shape[1]], plain)
    below = frames[:, plain.shape[1] :]
    assert below.shape == (STEPS, 3 * ROW, 120, 3)
    rows = [below[:, i * ROW : (i + 1) * ROW] for i in range(3)]  # left, up, right: the wanted ones first
    for step in range(STEPS):
        marked = [bool((row[step, :, 1:6] == OPERATOR).all(-1).any()) for row in rows]
        wish = record.wished[step]
        assert marked == [wish == LABEL.code("left"), wish == LABEL.code("up"), False]
        bars = [bool((row[step] == POLICY).all(-1).any()) for row in rows]
        assert bars == [False, True, False]
    done = [np.flatnonzero((row[1:] != row[:-1]).any((1, 2, 3))) + 1 for row in rows]
    assert [bool({*changed} & {at}) for changed, at in zip(done, (1, 5, 3), strict=True)] == [True] * 3


def test_a_film_shows_what_was_wanted_before_and_after_a_change(runs):
    """Episode 0 wants left and up, and up alone from the change on: left, which is done, is then unwanted."""
    record = records(runs, "operator+mac", changes_mind=True, size=1)[0]
    assert (record.intent, record.changed_at) == (("up",), CHANGE)
    _, frames = render_scene(TaskEnvironment(DrawnTask()), ("operator+mac", record))
    kept = dataclasses.replace(record, intent=("left", "up"), changed_at=None)
    _, unchanged = render_scene(TaskEnvironment(DrawnTask()), ("operator+mac", kept))
    wish = frames.shape[1] - 3 * ROW
    np.testing.assert_array_equal(frames[: CHANGE - 1], unchanged[: CHANGE - 1])
    assert (frames[CHANGE, wish:] != unchanged[CHANGE, wish:]).any()


def test_without_a_belief_there_are_no_bars_and_an_unwanted_goal_done_is_shown_as_such():
    quiet = draw_wishes(GOALS, Wishes(("up",), ()), 90)
    mistaken = draw_wishes(GOALS, Wishes(("up",), ("left",)), 90)
    assert quiet.shape == (3 * ROW, 90, 3)
    assert not (quiet == POLICY).all(-1).any()
    np.testing.assert_array_equal(quiet[:ROW], mistaken[:ROW])
    assert (quiet[ROW : 2 * ROW] != mistaken[ROW : 2 * ROW]).any()
    np.testing.assert_array_equal(quiet[2 * ROW :], mistaken[2 * ROW :])
