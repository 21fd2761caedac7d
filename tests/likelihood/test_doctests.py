"""The examples in docstrings of the data sets and of likelihoods run as a reader would paste them."""

import doctest
import importlib
import pkgutil

import pytest

import mac_policy.data
import mac_policy.likelihood

MODULES = [
    module.name
    for package in (mac_policy.data, mac_policy.likelihood)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
]
EXAMPLES = [
    example
    for module in map(importlib.import_module, MODULES)
    for example in doctest.DocTestFinder(exclude_empty=True).find(module, globs={})
    if any(doctest.SKIP not in part.options for part in example.examples)
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_example_runs(example):
    told = []
    results = doctest.DocTestRunner(verbose=False).run(example, out=told.append)
    assert results.failed == 0, "".join(told)


def test_examples_are_found():
    assert {"Scaling", "ModelSpec", "build", "encode"} & {example.name.rsplit(".", 1)[-1] for example in EXAMPLES}
