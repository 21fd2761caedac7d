"""Plain values a user hands in: what is taken, and the one line that says why another is not."""

import doctest
import re

import numpy as np
import pytest
from omegaconf import OmegaConf

from mac_policy.common import checks
from mac_policy.common.checks import check_list, check_mapping


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


def test_the_examples_run():
    assert doctest.testmod(checks).failed == 0
