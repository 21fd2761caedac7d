"""The learning rate over a run."""

from itertools import pairwise

import pytest

from mac_policy.training.optimizer import rate
from mac_policy.training.settings import TrainSettings


@pytest.mark.parametrize(("schedule", "half"), [("cosine", 0.5), ("linear", 0.5), ("constant", 1.0)])
def test_schedules_start_at_the_peak_and_end_where_they_say(schedule, half):
    assert rate(0, 100, 0.0, schedule) == 1.0
    assert rate(50, 100, 0.0, schedule) == pytest.approx(half)
    assert rate(100, 100, 0.0, schedule) == pytest.approx(1.0 if schedule == "constant" else 0.0, abs=1e-12)


def test_a_linear_schedule_falls_by_the_same_amount_each_step():
    rates = [rate(step, 40, 0.25, "linear") for step in range(10, 41)]
    falls = {round(a - b, 12) for a, b in pairwise(rates)}
    assert falls == {round(1 / 30, 12)}


def test_a_warmup_above_one_is_a_number_of_steps():
    assert [rate(step, 1000, 4, "constant") for step in range(6)] == [0.2, 0.4, 0.6, 0.8, 1.0, 1.0]
    assert [rate(step, 1000, 0.004, "constant") for step in range(6)] == [0.2, 0.4, 0.6, 0.8, 1.0, 1.0]
    assert TrainSettings(warmup=5000).warmup == 5000


def test_an_unknown_schedule_is_named():
    with pytest.raises(ValueError, match=r"unknown training.schedule 'linaer'; .* did you mean 'linear'"):
        TrainSettings(schedule="linaer")
