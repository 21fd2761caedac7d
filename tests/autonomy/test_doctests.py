"""The examples in the docstrings run, and give what they say."""

import doctest
import importlib
import pkgutil

import pytest

import mac_policy.autonomy

MODULES = [m.name for m in pkgutil.walk_packages(mac_policy.autonomy.__path__, "mac_policy.autonomy.")]
EXAMPLES = [
    example
    for module in map(importlib.import_module, MODULES)
    for example in doctest.DocTestFinder(exclude_empty=True).find(module)
    if any(doctest.SKIP not in line.options for line in example.examples)
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_example_gives_what_it_says(example):
    assert doctest.DocTestRunner().run(example).failed == 0


def test_there_are_examples():
    assert len(EXAMPLES) >= 4
