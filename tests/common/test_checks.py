"""Plain values a user hands in: what is taken, and the one line that says why another is not."""

import doctest
import re
from fractions import Fraction

import numpy as np
import pytest
from omegaconf import OmegaConf

from mac_policy.common import checks
from mac_policy.common.checks import check_distinct, check_list, check_mapping, is_finite


def test_lists_and_mappings_are_taken_in_every_form_that_options_have():
    for several in ([1, 2], (1, 2), OmegaConf.create([1, 2]), range(1, 3)):
        assert check_list("seeds", several) == [1, 2]
    assert check_list("seeds", []) == []
    for settings in ({"a": 1}, OmegaConf.create({"a": 1})):
        assert check_mapping("baselines.vae", settings) == {"a": 1}


@pytest.mark.parametrize(
    ("check", "value", "message"),
    [
        (check_list, "sfarm", "x must be a list such as [a,b], got 'sfarm'; write x=[sfarm]"),
        (check_list, 3, "x must be a list such as [a,b], got 3; write x=[3]"),
        (check_list, np.int64(3), "; write x=[3]"),
        (check_list, {"a": 1}, "x must be a list such as [a,b], got {'a': 1}"),
        (check_list, None, "x must be a list such as [a,b], got None"),
        (check_mapping, 3, "x must be a mapping such as {setting: value}, got 3; write x.setting=value"),
        (check_mapping, ["a"], "got ['a']; write x.setting=value"),
    ],
)
def test_what_is_neither_is_refused_with_what_to_write(check, value, message):
    with pytest.raises(ValueError, match=f"{re.escape(message)}$"):
        check("x", value)


@pytest.mark.filterwarnings("error")
def test_numbers_are_finite_where_double_precision_holds_them():
    kinds = (np.float16, np.float32, np.float64, np.longdouble, float)
    for kind in kinds:
        assert is_finite(kind(0.5))
        assert is_finite(kind(-65504))
        assert not any(is_finite(kind(value)) for value in ("nan", "inf", "-inf"))
    assert is_finite(np.int8(-3))
    assert is_finite(Fraction(1, 3))
    assert is_finite(10**308)
    assert not any(map(is_finite, (10**400, Fraction(10**400), np.longdouble("1e400"), True, "1", None, 1j)))


def test_entries_of_a_list_are_named_once():
    check_distinct("order", (2, "x", 0))
    check_distinct("order", [])
    for value, message in (
        ([0, 1, 0], "order must name each entry once, got 0 twice"),
        (["x", "x"], "order must name each entry once, got 'x' twice"),
        ([0, -1], "order[1] must be a whole number of at least 0, got -1"),
        ([0.5], "order[0] must be a whole number of at least 0, got 0.5"),
        (5, "order must be a list"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            check_distinct("order", value)


def test_the_examples_run():
    assert doctest.testmod(checks).failed == 0
