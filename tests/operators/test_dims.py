"""Which dims an operator holds: every way to say it, the same for the same episode, wrong ones refused."""

import numpy as np
import pytest

from mac_policy.operators.dims import OperatorDims

SEEDS = np.arange(500)


@pytest.mark.parametrize(
    ("spec", "dims"),
    [
        (4, (0, 1, 2, 3)),
        ("4", (0, 1, 2, 3)),
        (np.int64(2), (0, 1)),
        (0, ()),
        (9, tuple(range(9))),
        ([0, 2, 4, 8], (0, 2, 4, 8)),
        ("[0,2,4,8]", (0, 2, 4, 8)),
        ("0, 2, 4, 8", (0, 2, 4, 8)),
        ((8, 0), (8, 0)),
        (np.array([5, 3]), (5, 3)),
    ],
    ids=str,
)
def test_fixed_dims_are_said_as_a_number_or_a_list(spec, dims):
    rule = OperatorDims.parse(spec, 9)
    assert rule.fixed == dims
    held = rule.masks(SEEDS[:3], step=7)
    assert held.shape == (3, 9)
    assert all(set(np.flatnonzero(row)) == set(dims) for row in held)


@pytest.mark.parametrize("spec", [4, 0, [0, 2, 8], "random-4", "random-2-step", "random", "random-step"], ids=str)
def test_a_rule_is_written_as_it_is_read(spec):
    rule = OperatorDims.parse(spec, 9)
    assert OperatorDims.parse(str(rule), 9) == rule
    assert OperatorDims.parse(rule, 9) is rule


def test_a_subset_of_an_episode_is_a_function_of_its_seed_and_lasts_through_it():
    rule = OperatorDims.parse("random-4", 9)
    drawn = rule.masks(SEEDS)
    assert (drawn.sum(1) == 4).all()
    assert (drawn == rule.masks(SEEDS, step=99)).all()
    assert (drawn[100:200] == OperatorDims.parse("random-4", 9).masks(SEEDS[100:200])).all()
    assert len(np.unique(drawn, axis=0)) > 80
    np.testing.assert_allclose(drawn.mean(0), 4 / 9, atol=0.08)


def test_a_subset_of_a_step_changes_from_step_to_step_and_rows_may_be_at_different_ones():
    rule = OperatorDims.parse("random-4-step", 9)
    first, second = rule.masks(SEEDS, 0), rule.masks(SEEDS, 1)
    assert (first.sum(1) == 4).all()
    assert (first != second).any(1).mean() > 0.9
    steps = SEEDS % 2
    assert (rule.masks(SEEDS, steps) == np.where(steps[:, None] == 0, first, second)).all()


def test_any_subset_has_every_size_equally_often():
    sizes = OperatorDims.parse("random", 4).masks(np.arange(2000)).sum(1)
    np.testing.assert_allclose(np.bincount(sizes, minlength=5) / 2000, 0.2, atol=0.04)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (10, "operator_dims = 10 "),
        (-1, "operator_dims = -1 "),
        (2.0, "operator_dims = 2.0 "),
        (True, "operator_dims = True "),
        (None, "operator_dims = None "),
        ([], r"operator_dims = \[\] "),
        ("[]", r"operator_dims = \[\] "),
        ([0, 9], "no dim 9"),
        ([0, -1], "no dim -1"),
        ([1, 2, 1], "repeated"),
        ([0, 1.5], "1.5 is not a whole number"),
        ([True], "True is not a whole number"),
        ("random-10", "'random-10'"),
        ("random-0", "'random-0'"),
        ("randm-4", "'randm-4'"),
        ("", "''"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_with_what_is_allowed(spec, why):
    with pytest.raises(ValueError, match=rf"(?s){why}.*Allowed for 9 action dims: 0\.\.9 .*'random-k'"):
        OperatorDims.parse(spec, 9)


def test_a_rule_for_another_action_is_refused():
    with pytest.raises(ValueError, match="made for 9 action dims, but the action has 2"):
        OperatorDims.parse(OperatorDims.parse(4, 9), 2)


@pytest.mark.parametrize("spec", [["grip", "x"], "grip,x", "[grip, x]", ["grip", 0], "[grip,0]"], ids=str)
def test_dims_by_name(spec):
    assert OperatorDims.parse(spec, 3, ("x", "y", "grip")).fixed == (2, 0)


def test_an_unknown_name_is_named():
    with pytest.raises(ValueError, match="did you mean 'grip'"):
        OperatorDims.parse(["gripp"], 3, ("x", "y", "grip"))
    with pytest.raises(ValueError, match="cannot be used"):
        OperatorDims.parse(["x"], 3)
