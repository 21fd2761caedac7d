"""Intents as data: drawn, stated, changed, and what counts as wanted. No simulator."""

import itertools
from collections import Counter

import numpy as np
import pytest

from envs.kitchen.goals import CANONICAL_ORDER, GOALS, HINGE_CABINET, KETTLE, MICROWAVE, SLIDE_CABINET, VIEWS
from envs.kitchen.intent import (
    NOTHING,
    TASK_LABEL,
    changed_intent,
    check_intent,
    intent_of_seed,
    next_tasks,
    present_wish,
)
from envs.kitchen.intent_task import IntentTask
from mac_policy.demonstrations import Episode
from mac_policy.tasks import TASKS

TASK = IntentTask()


def test_a_seed_draws_the_same_four_tasks_in_an_order_that_can_be_done():
    drawn = [intent_of_seed(seed) for seed in range(2000)]
    assert drawn == [intent_of_seed(seed) for seed in range(2000)]
    assert {len(set(intent)) for intent in drawn} == {4}
    for intent in drawn:
        if {SLIDE_CABINET, HINGE_CABINET} <= {*intent}:
            assert intent.index(SLIDE_CABINET) < intent.index(HINGE_CABINET)
    assert len({frozenset(intent) for intent in drawn}) == 35  # every set of four of seven
    share = Counter(name for intent in drawn for name in intent)
    assert all(abs(share[name] / 2000 - 4 / 7) < 0.05 for name in CANONICAL_ORDER)


@pytest.mark.parametrize("size", [1, 7])
def test_an_intent_may_be_of_one_task_or_of_all(size):
    assert len({*intent_of_seed(3, size)}) == size


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"intent": ["kettel"]}, r"unknown kitchen task 'kettel'.*did you mean 'kettle'"),
        ({"intent": ["kettle", "kettle"]}, r"names 'kettle' twice: name each task once"),
        ({"intent": []}, r"task\.intent is empty: name one or more of microwave"),
        ({"intent": "kettle"}, r"task\.intent must be .*list.*got 'kettle'|task\.intent must be .*'kettle'"),
        ({"intent": [3]}, r"task\.intent\[0\] must be a text, got 3"),
        ({"intent": [["kettle"]]}, r"task\.intent\[0\] must be a text"),
        ({"intent": ["hinge cabinet", "slide cabinet"]}, r"opens the hinge cabinet first, whose door then blocks"),
        ({"wanted": 8}, r"task\.wanted=8 is more than the kitchen's 7 tasks: give fewer"),
        ({"wanted": 0}, r"task\.wanted must be a whole number of at least 1, got 0"),
    ],
)
def test_intents_that_cannot_be_wanted_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        TASKS["kitchen-intent"].with_options(options)


def test_an_intent_of_lists_is_refused_by_itself():
    with pytest.raises(ValueError, match="unknown kitchen task"):
        check_intent([["kettle"]])


def test_a_stated_intent_says_how_much_can_be_wanted():
    assert TASK.best_reward == 4
    assert TASK.with_options(intent=["kettle", "microwave"]).best_reward == 2
    assert TASK.with_options(intent=["kettle"]).identity() != TASK.identity()
    assert "wanted: kettle, then microwave" in TASK.with_options(intent=["kettle", "microwave"]).describe()


@pytest.mark.parametrize("seed", range(40))
def test_a_change_of_mind_keeps_what_is_done_and_drops_what_was_wanted_next(seed):
    rng = np.random.default_rng(seed)
    before = intent_of_seed(seed)
    completed = tuple(str(name) for name in rng.permutation(CANONICAL_ORDER)[: rng.integers(4)])
    preference = tuple(str(name) for name in rng.permutation(CANONICAL_ORDER))
    present = present_wish(before, completed)
    after = changed_intent(before, completed, present, preference)
    done = [name for name in before if name in completed]
    if present == NOTHING:
        assert after == before
        return
    assert after[: len(done)] == tuple(done)
    assert len(after) == len(set(after)) == len(before)
    assert present not in after[:-1]
    assert not {*after[len(done) :]} & {*completed}
    if HINGE_CABINET in completed:
        assert SLIDE_CABINET not in {*after[len(done) :]} - {present}
    assert present_wish(after, completed) != present


def test_who_has_nothing_else_to_want_does_not_change_its_mind():
    assert changed_intent(CANONICAL_ORDER, CANONICAL_ORDER[:6], CANONICAL_ORDER[6], CANONICAL_ORDER) == CANONICAL_ORDER


def test_labels_are_the_task_that_is_completed_next_by_a_slow_loop():
    rng = np.random.default_rng(0)
    for _ in range(50):
        steps = int(rng.integers(1, 30))
        completions = {name: int(rng.integers(0, steps + 1)) for name in rng.permutation(CANONICAL_ORDER)[:4]}
        completions = dict(sorted(completions.items(), key=lambda item: item[1]))
        for step, code in enumerate(next_tasks(completions, steps)):
            later = [name for name, at in completions.items() if at > step]
            first = min((completions[name] for name in later), default=None)
            expected = {name for name in later if completions[name] == first} or {NOTHING}
            assert TASK_LABEL.classes[code] in expected


def observed(*done_at, steps=10, width=30):
    """Observations in which tasks are completed at steps, far from all others."""
    positions = np.full((steps + 1, 30), 9.0, np.float32)
    for task, at in done_at:
        columns, target = GOALS[task]
        positions[at:, columns] = target
    seen = np.zeros((steps + 1, width), np.float32)
    seen[:, VIEWS["qpos"][width]] = positions
    return seen


@pytest.mark.parametrize("width", [30, 59, 60])
def test_an_episode_of_any_source_is_labelled_by_its_observations(width):
    zeros, no = np.zeros(10, np.float32), np.zeros(10, bool)
    episode = Episode(observed((KETTLE, 4), (MICROWAVE, 7), width=width), np.zeros((10, 9), np.float32), zeros, no, no)
    labels = TASK.label_episode(episode)
    assert labels.shape == (10, 1)
    named = [TASK_LABEL.classes[code] for code in labels[:, 0]]
    assert named == [KETTLE] * 4 + [MICROWAVE] * 3 + [NOTHING] * 3


def test_ties_are_labelled_by_one_of_the_tasks():
    for order in itertools.permutations((KETTLE, MICROWAVE)):
        assert set(next_tasks(dict.fromkeys(order, 2), 3).tolist()[:2]) <= {TASK_LABEL.code(name) for name in order}


@pytest.mark.parametrize(("steps", "done", "known"), [(280, 3, False), (280, 4, True), (200, 3, True)])
def test_what_was_wanted_when_time_ran_out_is_not_known(steps, done, known, monkeypatch):
    completions = {name: 40 * (i + 1) for i, name in enumerate(TASK_LABEL.classes[:done])}
    monkeypatch.setattr("envs.kitchen.intent_task.kitchen_completions", lambda observations: completions)
    zeros, no = np.zeros(steps, np.float32), np.zeros(steps, bool)
    episode = Episode(np.zeros((steps + 1, 30), np.float32), np.zeros((steps, 9), np.float32), zeros, no, no)
    labels = TASK.label_episode(episode)[:, 0]
    last = 40 * done
    assert (labels[:last] < done).all()
    assert set(labels[last:]) == {TASK_LABEL.code(NOTHING) if known else -1}
