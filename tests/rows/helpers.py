"""Rows without files, and comparisons that take a second."""

import numpy as np
import torch

from mac_policy.rows.likelihoods.comparison import Comparison
from mac_policy.rows.likelihoods.queries import EvaluationSettings
from mac_policy.rows.likelihoods.training import ArmRun, Budget
from mac_policy.rows.sets.row_set import RowSet
from mac_policy.rows.spec import ModelSpec, build
from mac_policy.training.fabric import Fabric
from mac_policy.training.settings import TrainSettings

N, LEVELS = 6, 3
MLP = {"kind": "mlp", "width": 24, "depth": 1}
CATEGORICAL = {"kind": "categorical"}


def letters(train=60, valid=8, test=12, seed=0):
    """Rows of 6 values in 0..2, each value often the one before it."""
    rng = np.random.default_rng(seed)
    count = train + valid + test
    rows = rng.integers(0, LEVELS, (count, N))
    for column in range(1, N):
        same = rng.random(count) < 0.8
        rows[same, column] = rows[same, column - 1]
    rows = rows.astype(np.uint8)
    return RowSet(
        "letters", rows[:train], rows[train : train + valid], rows[train + valid :], (N,), LEVELS, "memory", "0" * 64
    )


def numbers(train=60, valid=8, test=12, seed=0, columns=4):
    """Rows of correlated normal numbers."""
    rng = np.random.default_rng(seed)
    count = train + valid + test
    rows = (rng.normal(size=(count, 1)) + 0.5 * rng.normal(size=(count, columns))).astype(np.float32)
    return RowSet(
        "numbers",
        rows[:train],
        rows[train : train + valid],
        rows[train + valid :],
        (columns,),
        None,
        "memory",
        "1" * 64,
    )


def quickly(**settings):
    defaults = {
        "steps": 8, "batch_size": 16, "validations": 2, "ema": 0.0, "precision": "fp32", "accelerator": "cpu",
        "learning_rate": 0.01,
    }  # fmt: skip
    return TrainSettings(**(defaults | settings))


def budget(evaluation=None, **settings):
    evaluation = {"curve_rows": 4, "curve_steps": 2, **(evaluation or {})}
    return Budget(quickly(**settings), evaluation=EvaluationSettings(**evaluation))


def compare(folder, arms=("ardm", "mac"), seeds=(0, 1), rows=None, head=None, **settings):
    rows = rows or letters()
    return Comparison(
        name="letters-test",
        load=lambda seed: rows,
        networks={"set": MLP},
        head=head or CATEGORICAL,
        order={"kind": "lexicographic"},
        budget=budget(**settings),
        arms=arms,
        seeds=seeds,
        folder=folder,
    )


def one_process():
    return Fabric()


def spec(arm="mac", head=None, network=None, rows=None, **settings):
    rows = rows or letters()
    return ModelSpec(arm, rows.shape, rows.levels, network or MLP, head or CATEGORICAL, **settings)


def a_run(folder, arm="mac", seed=0, rows=None, head=None, network=None, **settings):
    rows = rows or letters()
    described = spec(arm, head, network, rows)
    return ArmRun(
        build(described, seed), described, rows, budget(**settings), folder, seed=seed, fabric=one_process(), quiet=True
    )


def far_from_uniform(model, seed=0):
    """The model with large weights, so that a wrong mask shows, in double precision."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator) / 2
    return model.double()


def same(first, second):
    a, b = first.state_dict(), second.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def threads_of_fit(monkeypatch, module, fit):
    """PyTorch's threads while `module` trains in `fit`, called with three threads, which it must leave."""
    train, seen = module.trained_model, []

    def trained_model(*inputs, **options):
        seen.append(torch.get_num_threads())
        return train(*inputs, **options)

    monkeypatch.setattr(module, "trained_model", trained_model)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        fit()
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    return seen
