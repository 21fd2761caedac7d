"""What test rows are asked: never nothing."""

import re

import pytest

from mac_policy.likelihood.queries import EvaluationSettings, evaluation_queries

from .helpers import compare, one_process


@pytest.mark.parametrize(
    ("pattern", "shape"),
    [("random-0", (9,)), ("random-0.05", (9,)), ("end-0", (1, 4, 4)), ("alternate", (1,)), ("exterior", (1, 1, 1))],
)
def test_a_pattern_that_asks_for_nothing_is_refused(pattern, shape):
    with pytest.raises(ValueError, match=re.escape(f"evaluation.missing: {pattern!r} leaves out none of")):
        evaluation_queries(3, shape, EvaluationSettings(missing=(pattern,)))


def test_a_pattern_may_leave_nothing_given():
    asked = evaluation_queries(3, (9,), EvaluationSettings(missing=("random-1",)))["missing-random-1"]
    assert asked.query.all()
    assert not asked.given.any()


def test_nothing_is_trained_before_an_empty_question_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"'random-0\.05' leaves out none of 6 variables"):
        compare(tmp_path, evaluation={"missing": ("random-0.05",)}).run(one_process(), quiet=True)
    assert not any(tmp_path.iterdir())
