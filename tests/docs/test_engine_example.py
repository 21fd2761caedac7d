"""The README's example of the engine against the closed form, for all evidence; and the tutorial on the core alone."""

import itertools
import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from tests.docs.pages import ROOT, blocks

N = 5


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """The names of the README's block, after it has run as it is written."""
    code = next(block.code for block in blocks(ROOT / "README.md") if "TableModel(" in block.code)
    namespace = {}
    folder = tmp_path_factory.mktemp("readme")
    exec(code.replace('"runs/table"', repr(str(folder / "table"))), namespace)
    assert (folder / "table" / "model.safetensors").exists()
    return namespace


def conditional(given):
    """Gain on the given values and covariance of all other variables."""
    covariance = 0.8 + 0.2 * np.eye(N)
    query = [i for i in range(N) if i not in given]
    across = covariance[np.ix_(query, given)]
    gain = across @ np.linalg.inv(covariance[np.ix_(given, given)]) if given else np.zeros((len(query), 0))
    return query, gain, covariance[np.ix_(query, query)] - gain @ across.T


@pytest.mark.parametrize("size", range(N))
def test_the_readme_example_has_the_likelihoods_and_deviations_of_the_closed_form(example, size):
    model, names = example["model"], example["model"].columns.names
    test = np.random.default_rng(1).multivariate_normal(np.zeros(N), 0.8 + 0.2 * np.eye(N), 1500)
    for given in map(list, itertools.combinations(range(N), size)):
        query, gain, covariance = conditional(given)
        off = test[:, query] - test[:, given] @ gain.T
        truth = multivariate_normal(np.zeros(len(query)), covariance).logpdf(off)
        found = model.log_prob(test, query=[names[i] for i in query], given=[names[i] for i in given])
        assert abs((found - truth).mean()) < 0.05, given
        single = model.conditionals({names[i]: test[:200, i] for i in given} or None)
        for place, i in enumerate(query):
            deviation = np.sqrt((single[names[i]].std ** 2).mean())
            assert abs(deviation / np.sqrt(covariance[place, place]) - 1) < 0.1, (given, i)


@pytest.mark.parametrize("given", [[], [4], [2, 3], [0, 1, 4]])
def test_its_samples_have_the_deviations_of_the_closed_form(example, given):
    model, names = example["model"], example["model"].columns.names
    known = {names[i]: [0.5] for i in given} or None
    drawn = model.sample(known, n_samples=4000)
    query, gain, covariance = conditional(given)
    np.testing.assert_allclose(drawn[:, query].std(0), np.sqrt(np.diag(covariance)), rtol=0.1)
    np.testing.assert_allclose(drawn[:, query].mean(0), gain @ np.full(len(given), 0.5), atol=0.12)
    correlation = np.corrcoef(drawn[:, query].T) if len(query) > 1 else np.ones((1, 1))
    scale = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(correlation, covariance / np.outer(scale, scale), atol=0.1)


CORE_ALONE = """
import builtins, sys
real = builtins.__import__
optional = {"pandas", "sklearn", "lightning_fabric", "rich", "matplotlib", "hydra", "omegaconf", "h5py", "minari"}
def only_core(name, *args, **kwargs):
    if name.split(".")[0] in optional:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return real(name, *args, **kwargs)
builtins.__import__ = only_core
from importlib import machinery
find = machinery.PathFinder.find_spec
machinery.PathFinder.find_spec = lambda name, *args: None if name.split(".")[0] in optional else find(name, *args)
"""


@pytest.mark.parametrize("page", ["tutorials/table.md", "engine.md"])
def test_a_page_for_people_without_a_robot_runs_on_the_core_install_alone(tmp_path, page):
    code = "\n".join(block.code for block in blocks(ROOT / "docs" / page) if block.language == "python")
    done = subprocess.run(
        [sys.executable, "-c", CORE_ALONE + code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
