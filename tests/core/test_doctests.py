"""The examples in docstrings run as a reader would paste them: with nothing imported but what they import."""

import doctest
import importlib
import pkgutil

import pytest

import mac_policy.core

MODULES = [module.name for module in pkgutil.walk_packages(mac_policy.core.__path__, "mac_policy.core.")]
EXAMPLES = [
    example
    for module in map(importlib.import_module, MODULES)
    for example in doctest.DocTestFinder(exclude_empty=True).find(module, globs={})
    if example.examples
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_example_runs(example):
    told = []
    results = doctest.DocTestRunner(verbose=False).run(example, out=told.append)
    assert results.attempted > 0
    assert results.failed == 0, "".join(told)


def test_examples_are_found():
    assert {"AnyOrderModel", "MaskTuned", "StagedModes"} <= {example.name.rsplit(".", 1)[-1] for example in EXAMPLES}
