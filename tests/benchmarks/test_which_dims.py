"""The search for the dims that a person should hold, on a reward that is known."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import which_dims

WORTH = np.array([0.3, 0.9, 0.1, 0.5])
TOGETHER = {(0, 1): -0.8, (1, 3): 0.2}


def known(dims):
    """Worths of single dims, and what two of them add or take together."""
    return float(WORTH[list(dims)].sum() + sum(TOGETHER.get(pair, 0.0) for pair in itertools.combinations(dims, 2)))


@pytest.fixture
def asked(monkeypatch):
    found = []

    def reward(options, dims, seed):
        found.append((tuple(dims), seed))
        return SimpleNamespace(mean=known(dims))

    monkeypatch.setattr(which_dims, "reward", reward)
    return found


def test_the_matrix_has_every_pair_and_single_dims_on_its_diagonal(asked):
    matrix = which_dims.pairs(SimpleNamespace(seed=5), 4)
    for i, j in itertools.product(range(4), repeat=2):
        assert matrix[i, j] == pytest.approx(known(sorted({i, j})))
    assert len(asked) == len(set(asked)) == 10
    assert {seed for _, seed in asked} == {5}


def test_the_search_adds_the_best_dim_to_the_set_before(asked):
    found = which_dims.greedy(SimpleNamespace(seed=5, greedy=3), 4)
    expected, held = [], []
    for _ in range(3):
        held = max(([*held, dim] for dim in range(4) if dim not in held), key=lambda dims: known(sorted(dims)))
        expected.append(sorted(held))
    assert found == expected == [[1], [1, 3], [1, 2, 3]]
