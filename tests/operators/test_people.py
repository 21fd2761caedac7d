"""Recorded people as operators: their targets are reached whatever the readings are, and what they did is wanted."""

import numpy as np
import pytest
from gymnasium import spaces

from mac_policy.common.actions import Actions
from mac_policy.operators.dims import OperatorDims
from mac_policy.operators.people import PersonReplay
from mac_policy.operators.registry import Recording, Resources, make_kind

N, OBS, STEPS = 2, 3, 6
SPACE = spaces.Box(-1.0, 1.0, (N,), np.float32)
KNOWN = Actions(meaning="relative", observed=(2, 0), scale=(0.5, 0.1))
WISHES = ("kettle", "kettle", "light", "light", "none", "none")


def recordings(count=3):
    rng = np.random.default_rng(0)
    shape = (count, STEPS)
    seen, acted = rng.normal(0, 0.2, (*shape, OBS)), rng.uniform(-1, 1, (*shape, N))
    return [
        Recording(seen[i].astype(np.float32), acted[i].astype(np.float32), WISHES, ("kettle", "light"))
        for i in range(count)
    ]


class Kitchen:
    def __init__(self):
        self.intent, self.completed = None, ()
        self.unwrapped = self

    def want(self, intent):
        self.intent = intent


def replay(people, batch=1, actions=KNOWN, dims=N):
    environments = [Kitchen() for _ in range(batch)]
    resources = Resources(SPACE, environments=environments, recordings=lambda: people, actions=actions)
    return make_kind("replay").make(OperatorDims.parse(dims, N), batch, resources), environments


def test_the_commands_lead_to_the_recorded_targets_from_whatever_is_read():
    (person,) = people = recordings(1)
    operator, _ = replay(people)
    operator.reset(seeds=3)
    rng = np.random.default_rng(1)
    for step in range(STEPS):
        read = person.observations[step] + rng.normal(0, 0.02, OBS).astype(np.float32)
        found = operator(read)
        for dim in range(N):
            at, scale = KNOWN.observed[dim], KNOWN.scale[dim]
            target = person.observations[step, at] + scale * person.actions[step, dim]
            expected = np.clip((target - read[at]) / scale, -1, 1)
            assert found.values[dim] == pytest.approx(expected, abs=1e-5)
        assert found.mask.all()
    assert not operator(read).mask.any()  # the recording is over


def test_from_the_recorded_readings_the_commands_are_the_recorded_actions():
    (person,) = people = recordings(1)
    operator, _ = replay(people)
    operator.reset()
    for step in range(STEPS):
        np.testing.assert_allclose(operator(person.observations[step]).values, person.actions[step], atol=1e-5)


def test_actions_without_targets_are_played_back_as_they_are():
    (person,) = people = recordings(1)
    operator, _ = replay(people, actions=Actions())
    operator.reset()
    for step in range(STEPS):
        np.testing.assert_array_equal(operator(np.ones(OBS)).values, person.actions[step])


def test_what_the_person_did_becomes_the_intent_and_what_comes_next_the_wish():
    operator, (kitchen,) = replay(recordings(1))
    operator.reset()
    assert kitchen.intent == ("kettle", "light")
    said = []
    for step in range(STEPS + 2):
        operator(np.zeros(OBS))
        kitchen.completed = ("kettle",) if step >= 1 else ()  # the robot does it a step early
        said += operator.wanted()
    assert said == ["kettle", *["light"] * 7]  # the light is left although the person had done it
    kitchen.completed = ("kettle", "light")
    assert operator.wanted() == ["none"]


def test_rows_draw_their_people_from_the_seeds_of_their_episodes():
    people = recordings(3)
    operator, _ = replay(people, batch=60)
    operator.reset(seeds=np.arange(60))
    first = operator(np.zeros((60, OBS))).values
    assert len(np.unique(first, axis=0)) == 3
    alone, _ = replay(people)
    alone.reset(seeds=17)
    np.testing.assert_array_equal(alone(np.zeros(OBS)).values, first[17])
    operator.reset(np.arange(60) == 5, np.full(60, 17))
    np.testing.assert_array_equal(operator(np.zeros((60, OBS))).values[5], first[17])


def test_a_measurement_without_recordings_is_told_what_to_give():
    with pytest.raises(ValueError, match="'replay' operator needs recordings: a task with held-out recordings"):
        make_kind("replay").make(OperatorDims.parse(1, N), 1, Resources(SPACE))
    with pytest.raises(ValueError, match="at least one recording"):
        PersonReplay([], OperatorDims.parse(1, N), 1, Resources(SPACE))


def test_a_recording_without_labels_says_nothing():
    (person,) = recordings(1)
    operator, _ = replay([person._replace(wishes=(), completed=())])
    operator.reset()
    operator(np.zeros(OBS))
    assert operator.wanted() == [None]
