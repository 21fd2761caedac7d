"""What rows are asked: never nothing, and whole pixels where an arm knows no parts of them."""

import re

import numpy as np
import pytest
import torch

from mac_policy.rows.likelihoods import evaluate as outcome
from mac_policy.rows.likelihoods import training as run
from mac_policy.rows.likelihoods.queries import EvaluationSettings, curve_queries, evaluation_queries
from mac_policy.rows.sets.row_set import RowSet
from tests.rows.helpers import compare, one_process

pytestmark = pytest.mark.filterwarnings("ignore:this query needs")  # the queries are not what is tested

COLOUR = (3, 4, 4)


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


# ---- whole pixels ----


def apart(queries, shape=COLOUR):
    """Whether any pixel has one channel asked or given and another not."""
    masks = torch.stack([queries.query, queries.given]).view(2, -1, shape[0], shape[1] * shape[2])
    return bool((masks != masks[:, :, :1]).any())


def test_whole_pixels_are_asked_in_every_kind_of_query_and_along_training():
    settings = EvaluationSettings(whole_pixels=True, cardinalities=(5,))
    asked = evaluation_queries(2000, COLOUR, settings)
    assert not any(apart(queries) for queries in (*asked.values(), *curve_queries(64, COLOUR, settings).values()))
    assert set(asked["marginal"].query.sum(1).tolist()) == {3 * pixels for pixels in range(1, 17)}
    assert set(asked["conditional"].given.sum(1).tolist()) == {3 * pixels for pixels in range(16)}
    assert set(asked["marginal-5"].query.sum(1).tolist()) == {15}
    bernoulli = evaluation_queries(2000, COLOUR, EvaluationSettings(whole_pixels=True, conditional="bernoulli"))
    assert not apart(bernoulli["conditional"])
    with pytest.raises(ValueError, match=r"cardinalities must be in 1..16, got 17"):
        evaluation_queries(1, COLOUR, EvaluationSettings(whole_pixels=True, cardinalities=(17,)))
    with pytest.raises(ValueError, match=r"evaluation\.whole_pixels must be true or false, got 'yes'"):
        EvaluationSettings(whole_pixels="yes")


@pytest.mark.parametrize("shape", [(1, 4, 4), (16,)])
def test_rows_without_colours_are_asked_the_same_either_way(shape):
    parts, whole = (evaluation_queries(50, shape, EvaluationSettings(whole_pixels=choice)) for choice in (False, True))
    assert all(torch.equal(parts[name].query, whole[name].query) for name in parts)


@pytest.mark.parametrize(("arms", "whole"), [(("ardm", "sfarm"), True), (("ardm", "mac"), False)])
def test_every_arm_beside_a_staged_one_is_asked_for_whole_pixels_of_colour_images(tmp_path, monkeypatch, arms, whole):
    asked = []

    def noting(real):
        return lambda model, rows, queries, **more: asked.append(queries) or real(model, rows, queries, **more)

    for module in (run, outcome):
        monkeypatch.setattr(module, "log_likelihoods", noting(module.log_likelihoods))
    train, valid, test = (np.random.default_rng(0).integers(0, 3, (count, 48), np.uint8) for count in (20, 4, 5))
    rows = RowSet("colours", train, valid, test, COLOUR, 3, "memory", "0" * 64)
    record = compare(tmp_path, arms, seeds=(0,), rows=rows, steps=2, validations=1).run(one_process(), quiet=True)
    assert len(asked) == 2 * 5  # joint and marginal along training, the three kinds on test rows
    assert [apart(queries) for queries in asked] == [not whole and not queries.query.all() for queries in asked]
    assert record["budget"]["evaluation"]["whole_pixels"] is whole
    assert record["budget"]["curve"]["whole_pixels"] is whole
