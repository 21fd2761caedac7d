"""Whatever is put in, in whatever order: the robot is sent actions of its space, with the held dims as commanded."""

import warnings

import numpy as np
import pytest

from tests.filter.machine import FORMS, Machine, long_run


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("form", FORMS)
def test_no_sequence_of_events_sends_the_robot_anything_unsafe(form):
    machine = Machine(form, seed=len(form)).run(1500)
    assert machine.falls > 100
    assert machine.env.counts["calls"] == machine.steps
    assert all(machine.env.counts[kind] for kind in ("invalid", "blind", "failed", "clipped"))
    if machine.talker:
        assert machine.env.counts["unknown"] > 100
        assert machine.talker.told > 1000
        assert machine.talker.answers > 10


def test_the_machine_finds_a_filter_that_lets_something_through(monkeypatch):
    machine = Machine("masks", seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machine.run(50)
    monkeypatch.setattr("mac_policy.filter.filler.np.minimum", lambda found, high: found + 1)
    with pytest.raises(AssertionError):
        machine.run(50)


def test_the_machine_finds_a_filter_that_tells_what_nobody_says_any_more(monkeypatch):
    monkeypatch.setattr("mac_policy.filter.completion.Completion.forget", lambda self, rows: None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(AssertionError):
            Machine("vector with labels", seed=1).run(500)


@pytest.mark.slow
def test_a_million_steps_send_nothing_unsafe_and_hold_no_memory():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        grown, machines = long_run(1_000_000)
    assert sum(machine.steps for machine in machines) > 900_000
    assert grown < 5
    assert np.all([machine.falls > 1000 for machine in machines])
