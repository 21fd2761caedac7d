"""Rollouts: paired, the same however they are run, resumable; on the fork with untrained policies."""

import dataclasses
import weakref

import numpy as np
import pytest
from rich.console import Console

from mac_policy.evaluation import rollout as rollout_module
from mac_policy.evaluation.episode_store import EpisodeStore
from mac_policy.evaluation.group import Job, made_environments, release_environments, run_job
from mac_policy.evaluation.rollout import outdated, roll_out
from mac_policy.operators.simple import PolicyOperator
from mac_policy.policies.checkpoint import SavedPolicy, load_policy
from tests.evaluation.fork_runs import FORK, operator, rollout, save_all, save_run, teams

QUIET = Console(quiet=True)
ARMS = ("operator+bc", "operator+mac", "operator+mac-blind", "mac", "bc", "zeros")


@pytest.fixture
def runs(tmp_path):
    return save_all(tmp_path / "runs")


def measured(what, who, folder, **settings):
    """Results without what a clock measured."""
    found = roll_out(what, who, EpisodeStore(folder), console=QUIET, **settings)
    return {
        arm: {seed: [dataclasses.replace(r, fill_ms=()) for r in episodes] for seed, episodes in seeds.items()}
        for arm, seeds in found.items()
    }


def test_every_arm_meets_the_same_episodes_and_the_same_person(runs, tmp_path):
    results = measured(rollout(), teams(runs, *ARMS), tmp_path)
    for seeds in results.values():
        (episodes,) = seeds.values()
        assert [(record.episode, record.seed) for record in episodes] == [(i, 10_000 + i) for i in range(7)]
    shared = {arm: next(iter(results[arm].values()))[0] for arm in ARMS if arm.startswith(("operator", "zeros"))}
    sides = {np.sign([action[0] for action in record.actions[3:5]]).tolist()[0] for record in shared.values()}
    assert len(sides) == 1  # the expert steers to the same side whatever fills in
    assert all(set(record.masks) == {"10"} for record in shared.values())
    assert all(record.held_dims == 1 for record in shared.values())
    assert results["mac"][0][0].held_dims == 0
    assert {action[1] for action in shared["zeros"].actions} == {0.0}


def test_groups_are_the_same_whatever_was_done_before(runs):
    what = rollout()
    (team,) = teams(runs, "operator+mac")
    first, second = Job(team, what.key(team), 0, 3), Job(team, what.key(team), 3, 3)

    def actions(job):
        return [(r.actions, r.reward, r.steps, r.completed) for r in run_job(what, job)]

    fresh = actions(first)
    actions(second)
    assert actions(first) == fresh
    assert actions(first) != actions(second)


def test_the_number_of_workers_changes_nothing(runs, tmp_path):
    who = teams(runs, "operator+mac", "bc")
    one = measured(rollout(), who, tmp_path / "one")
    assert measured(rollout(), who, tmp_path / "two", workers=2) == one


def test_a_run_that_was_killed_goes_on_to_the_same_numbers(runs, tmp_path, monkeypatch):
    who = teams(runs, "operator+mac", "operator+bc")
    whole = measured(rollout(), who, tmp_path / "whole")
    calls = []

    def dying(what, job):
        calls.append(job)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return run_job(what, job)

    monkeypatch.setattr(rollout_module, "run_job", dying)
    with pytest.raises(KeyboardInterrupt):
        measured(rollout(), who, tmp_path / "killed")
    store = EpisodeStore(tmp_path / "killed")
    kept = len(store.read())
    assert kept == 9
    with store.path.open("a") as file:
        file.write('{"key": "cut off in the midd')  # as a kill leaves it
    calls[:] = [None] * 10
    assert measured(rollout(), who, tmp_path / "killed") == whole
    assert sum(job.size for job in calls[10:]) == 14 - kept
    again = list(calls)
    assert measured(rollout(), who, tmp_path / "killed") == whole
    assert calls == again  # finished: nothing is rolled out


def test_what_a_neighbour_has_rolled_out_is_not_rolled_out_again(runs, tmp_path, monkeypatch):
    measured(rollout(), teams(runs, "operator+mac", "mac"), tmp_path / "expert")
    whole = measured(rollout(), teams(runs, "operator+mac", "mac", acting=operator("bc")), tmp_path / "whole")
    arms = []
    monkeypatch.setattr(rollout_module, "run_job", lambda what, job: arms.append(job.team.arm) or run_job(what, job))
    who = teams(runs, "operator+mac", "mac", acting=operator("bc"))
    beside = [EpisodeStore(tmp_path / "nothing"), EpisodeStore(tmp_path / "expert")]
    assert measured(rollout(), who, tmp_path / "bc", neighbours=beside) == whole
    assert set(arms) == {"operator+mac"}
    assert measured(rollout(), who, tmp_path / "bc") == whole  # the store is whole without its neighbours
    assert arms == ["operator+mac"] * 3


def test_more_episodes_keep_the_full_groups(runs, tmp_path, monkeypatch):
    who = teams(runs, "mac")
    measured(rollout(episodes=7), who, tmp_path)
    sizes = []
    monkeypatch.setattr(rollout_module, "run_job", lambda what, job: sizes.append(job[2:]) or run_job(what, job))
    measured(rollout(episodes=12), who, tmp_path)
    assert sizes == [(6, 3), (9, 3)]


def test_what_was_rolled_out_with_other_weights_or_settings_is_done_again(runs, tmp_path):
    before = measured(rollout(), teams(runs, "mac", "bc"), tmp_path)
    save_run(runs, "mac", 0, decode="sample", width=24)
    who = teams(runs, "mac", "bc")
    assert outdated(rollout(), who, EpisodeStore(tmp_path)) == {"mac": 7}
    after = measured(rollout(), who, tmp_path)
    assert after["mac"] != before["mac"]
    assert after["bc"] == before["bc"]
    for other in (rollout(seed=1), rollout(max_change=0.1), dataclasses.replace(rollout(), make_env=Other())):
        assert outdated(other, who, EpisodeStore(tmp_path)) == {"mac": 14, "bc": 7}
    cooler = teams(runs, "mac", temperature=0.1)
    assert outdated(rollout(), cooler, EpisodeStore(tmp_path)) == {"mac": 14}


@dataclasses.dataclass(frozen=True)
class Other:
    """A factory that is no task's."""

    def __call__(self):
        return FORK()

    def identity(self):
        return {"task": "another"}


def test_an_arm_without_training_is_rolled_out_once(runs, tmp_path):
    save_all(runs, seeds=(1,))
    who = teams(runs, "operator+mac", "zeros", seeds=(0, 1))
    results = measured(rollout(), who, tmp_path)
    assert list(results["operator+mac"]) == [0, 1]
    assert list(results["zeros"]) == [None]
    who = teams(runs, "zeros", seeds=(0, 1), acting=operator("bc"))
    assert list(measured(rollout(), who, tmp_path)["zeros"]) == [0, 1]


def test_the_blind_arm_is_not_shown_the_command_but_carries_it_out(runs, monkeypatch):
    shown = []
    policy = load_policy(runs / "fork" / "mac-s0")
    step = policy.step

    def spy(obs, state=None, command=None, mask=None, **settings):
        shown.append(mask is not None and bool(np.any(mask)))
        return step(obs, state, command, mask, **settings)

    policy.step = spy
    monkeypatch.setattr(SavedPolicy, "load", lambda self: policy)
    told = {}
    for team in teams(runs, "operator+mac", "operator+mac-blind", acting=operator(dims=[1])):
        (record,) = run_job(rollout(1, 1), Job(team, "0", 0, 1))
        told[team.arm], shown[:] = set(shown), []
        assert set(record.masks) == {"01"}
        side = np.sign(record.actions[4][1])
        assert record.actions[4][1] == side  # full power to the side in mind
    assert told == {"operator+mac": {True}, "operator+mac-blind": {False}}


def test_a_command_that_is_not_finite_reaches_no_environment(runs, monkeypatch):
    """With nobody to fill in either."""
    monkeypatch.setattr(PolicyOperator, "values", lambda self, seen: np.full((self.batch, 2), [np.nan, 0.5]))
    for arm, expected in (("zeros", (0.0, 0.0)), ("operator", (0.0, 0.5))):
        (team,) = teams(runs, arm, acting=operator("bc", dims=1))
        (record,) = run_job(rollout(1, 1), Job(team, "0", 0, 1))
        assert set(record.actions) == {expected}
        assert record.invalid == record.steps


def test_masks_that_are_drawn_are_the_same_for_every_arm(runs, tmp_path):
    who = teams(runs, "operator+mac", "operator+bc", acting=operator(dims="random-1-step"))
    results = measured(rollout(), who, tmp_path)
    mac, bc = (results[arm][0][0].masks for arm in ("operator+mac", "operator+bc"))
    shared = min(len(mac), len(bc))
    assert mac[:shared] == bc[:shared]
    assert set(mac) == {"10", "01"}


def test_stored_actions_replayed_give_the_stored_episode(runs, tmp_path):
    record = measured(rollout(), teams(runs, "operator+mac"), tmp_path)["operator+mac"][0][0]
    env = FORK()
    env.reset(seed=record.seed)
    total, info = 0.0, {}
    for action in record.actions:
        _, reward, _, _, info = env.step(np.array(action, np.float32))
        total += reward
    assert (total, info["completed"], len(record.actions)) == (record.reward, record.completed, record.steps)


def test_settings_that_make_no_sense_are_refused(runs, tmp_path):
    for settings, message in (
        ({"episodes": 0}, "episodes must be a whole number of at least 1, got 0"),
        ({"together": 0}, "together must be a whole number of at least 1, got 0"),
        ({"seed": -1}, "seed must be a whole number of at least 0"),
    ):
        with pytest.raises(ValueError, match=message):
            rollout(**settings)
    with pytest.raises(ValueError, match="workers must be"):
        roll_out(rollout(), teams(runs, "bc"), EpisodeStore(tmp_path), workers=0, console=QUIET)


class Cyclic:
    """Makes environments that only the garbage collector frees, as simulators are, and remembers which live."""

    living: "weakref.WeakSet" = weakref.WeakSet()  # noqa: RUF012

    def __call__(self):
        env = FORK()
        env.itself = env
        self.living.add(env)
        return env

    def identity(self):
        return FORK.identity()


def test_environments_are_reused_and_then_freed(runs, tmp_path):
    what = dataclasses.replace(rollout(), make_env=Cyclic())
    roll_out(what, teams(runs, "operator+mac", "mac"), EpisodeStore(tmp_path), console=QUIET)
    assert not Cyclic.living


def test_other_environments_take_the_place_of_those_before():
    first, other = Cyclic(), Cyclic()
    made = made_environments(first, 3)
    assert made_environments(first, 3) is made
    del made
    made_environments(other, 2)
    assert len(Cyclic.living) == 2
    release_environments()
    assert not Cyclic.living
