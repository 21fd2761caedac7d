"""The examples in docstrings run as a reader would paste them, and give what they say."""

import doctest
import importlib
import pkgutil

import pytest

import mac_policy

MODULES = [module.name for module in pkgutil.walk_packages(mac_policy.__path__, "mac_policy.")]
EXAMPLES = [
    example
    for module in map(importlib.import_module, MODULES)
    for example in doctest.DocTestFinder(exclude_empty=True).find(module)
    if any(doctest.SKIP not in line.options for line in example.examples)
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_example_gives_what_it_says(example):
    told = []
    results = doctest.DocTestRunner(verbose=False).run(example, out=told.append)
    assert results.failed == 0, "".join(told)


def test_examples_are_found():
    names = {example.name.rsplit(".", 1)[-1] for example in EXAMPLES}
    assert {"AnyOrderModel", "MaskTuned", "StagedModes", "build", "Deadline", "OperatorDims"} <= names
