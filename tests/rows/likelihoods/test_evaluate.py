"""Likelihoods of test rows: what is asked, of whom, and shared by how many."""

import math
import time

import numpy as np
import pytest
import torch
from scipy.stats import ttest_1samp

from mac_policy.common.statistics import summary
from mac_policy.rows.likelihoods.evaluate import CHUNK, Outcome, evaluate, log_likelihoods, per_asked, some_rows
from mac_policy.rows.likelihoods.queries import EvaluationSettings, conditional, evaluation_queries, joint, marginal
from mac_policy.rows.spec import build
from tests.rows.helpers import MLP, N, far_from_uniform, letters, numbers, one_process, spec

pytestmark = pytest.mark.filterwarnings("ignore:this query needs")  # the queries are not what is tested


class Pretend:
    """One of several processes, as far as its share of the work goes."""

    def __init__(self, rank, world):
        self.global_rank, self.world_size, self.device = rank, world, torch.device("cpu")
        self.autocast = one_process().autocast

    def all_reduce(self, values, reduce_op):
        assert reduce_op == "sum"
        return values


@pytest.mark.parametrize("arm", ["ardm", "mac"])
@pytest.mark.parametrize("steps", [0, 2])
def test_the_shares_of_several_processes_add_up_to_the_work_of_one(arm, steps):
    rows = letters(test=3 * CHUNK + 5)
    model = far_from_uniform(build(spec(arm)))
    for queries in evaluation_queries(len(rows.test), (N,), EvaluationSettings()).values():
        ask = {"seed": 1, "steps": steps}
        whole = log_likelihoods(model, rows.test, queries, fabric=one_process(), **ask)["model"]
        shares = [log_likelihoods(model, rows.test, queries, fabric=Pretend(r, 3), **ask)["model"] for r in range(3)]
        torch.testing.assert_close(sum(shares), whole)
        assert all((share != 0).any() for share in shares)


def test_evaluation_leaves_the_training_mode_as_it_was():
    model = build(spec())
    model.train()
    log_likelihoods(model, letters().test, joint(4, N), fabric=one_process())
    assert model.training


def test_the_masks_are_the_same_every_time_and_follow_their_laws():
    settings = EvaluationSettings(cardinalities=(2, 5))
    first, second = (evaluation_queries(3000, (N,), settings) for _ in range(2))
    assert list(first) == ["joint", "marginal", "conditional", "marginal-2", "marginal-5"]
    for name in first:
        assert torch.equal(first[name].query, second[name].query)
        assert not (first[name].query & first[name].given).any()
    assert first["joint"].query.all()
    assert torch.bincount(first["marginal"].query.sum(1), minlength=N + 1)[0] == 0
    assert torch.equal(first["conditional"].query, ~first["conditional"].given)
    assert set(first["conditional"].given.sum(1).tolist()) == set(range(N))
    assert set(first["marginal-5"].query.sum(1).tolist()) == {5}
    half = conditional(4000, N, "bernoulli").given.double().mean(0)
    torch.testing.assert_close(half, torch.full((N,), 0.5, dtype=torch.float64), atol=0.04, rtol=0)
    assert not marginal(5, N).given.any()


QUERIES = ("joint", "marginal", "conditional", "marginal-3")


def outcome(nats, asked):
    found = {f"{query}.model": nats for query in QUERIES}
    return Outcome("mac", 0, log_likelihood=found, asked=dict.fromkeys(QUERIES, asked))


def test_bits_are_counted_as_the_papers_count_them():
    nats, asked = -math.log(2) * torch.tensor([12.0, 6.0], dtype=torch.float64), torch.tensor([6, 2])
    bits = outcome(nats, asked).metrics(6, discrete=True)
    np.testing.assert_allclose(bits["joint"], [2.0, 1.0])
    np.testing.assert_allclose(bits["marginal"], [2.0, 1.0])  # over all variables, whatever was asked
    for name in ("marginal_per_asked", "conditional", "marginal-3"):
        assert bits[name].mean() == pytest.approx(18 / 8)
    table = outcome(nats, asked).metrics(6, discrete=False)
    np.testing.assert_allclose(table["conditional"], nats)
    assert "marginal_per_asked" not in table


def test_a_ratio_has_the_spread_of_a_ratio():
    rng = np.random.default_rng(0)
    asked = rng.integers(1, 20, 4000).astype(float)
    bits = 2 * asked + rng.normal(size=4000)
    values = per_asked(bits, asked)
    assert values.mean() == pytest.approx(bits.sum() / asked.sum())
    assert values.std() == pytest.approx(1 / asked.mean(), rel=0.05)  # the lengths' own spread is gone


# ---- intervals ----


def interval(values, shared_rows=True):
    return summary(list(values), shared_rows)["ci95"]


@pytest.mark.parametrize("seeds", [2, 3, 12])
@pytest.mark.parametrize("of_seeds", [0.0, 0.3, 3.0])
@pytest.mark.parametrize("shared_rows", [True, False])
def test_an_interval_covers_as_often_as_it_says(shared_rows, of_seeds, seeds):
    rng, trials, rows = np.random.default_rng(0), 400, 20
    inside = 0
    for _ in range(trials):
        of_rows = rng.normal(size=(1 if shared_rows else seeds, rows))
        values = of_seeds * rng.normal(size=(seeds, 1)) + of_rows + rng.normal(size=(seeds, rows))
        low, high = interval(values, shared_rows)
        inside += low <= 0 <= high
    assert inside / trials >= (0.88 if seeds == 2 else 0.92)  # the freedom of a sum is itself estimated


def test_rows_that_all_seeds_share_count_once():
    rows = np.random.default_rng(0).normal(size=(1, 50))
    shared = np.repeat(rows, 8, 0)
    assert np.diff(interval(shared))[0] == pytest.approx(np.diff(interval(rows))[0])  # copies tell no more than one
    assert interval(rows) == pytest.approx(ttest_1samp(rows[0], 0).confidence_interval(), abs=1e-9)
    assert interval(shared, False) == pytest.approx(ttest_1samp(shared.ravel(), 0).confidence_interval(), abs=1e-9)


def test_seeds_of_different_numbers_of_rows():
    rng = np.random.default_rng(0)
    found = summary([rng.normal(size=30) + 1, rng.normal(size=50) - 1], shared_rows=False)
    assert found["mean"] == pytest.approx(np.mean(found["per_seed"]))
    assert found["ci95"] == pytest.approx(ttest_1samp(found["per_seed"], 0).confidence_interval(), abs=1e-9)


def test_many_rows_cost_no_more_than_a_pass_over_them():
    values = np.random.default_rng(0).normal(size=(2, 2_000_000))
    began = time.process_time()
    summary(list(values), shared_rows=True)
    assert time.process_time() - began < 2


def test_the_rows_looked_at_are_spread_over_the_split_and_the_same_each_time():
    found = some_rows(10_000, 256)
    assert found.tolist() == sorted(set(found.tolist())) == some_rows(10_000, 256).tolist()
    assert abs(found.mean() - 5_000) < 600
    data = letters()
    queries = joint(3, N)
    asked = log_likelihoods(build(spec()), data.test, queries, fabric=one_process())["model"]
    alone = log_likelihoods(build(spec()), data.test[some_rows(len(data.test), 3)], queries, fabric=one_process())
    assert torch.equal(asked, alone["model"])


def test_a_difference_row_by_row_is_surer_than_its_parts():
    rng = np.random.default_rng(0)
    first = rng.normal(size=(3, 200))
    low, high = interval(0.1 + 0.01 * rng.normal(size=(3, 200)) + first - first)
    assert 0.09 < low < 0.1 < high < 0.11
    with pytest.raises(ValueError, match="at least one training seed, each with at least one row"):
        summary([np.zeros(0)], shared_rows=True)


# ---- what is kept ----


def ask(model, folder, data=None, **settings):
    return evaluate(
        model, data or letters(), EvaluationSettings(**settings), folder, fabric=one_process(), arm="mac", seed=0
    )


def test_an_outcome_is_kept_and_asked_again_only_when_the_question_changes(tmp_path):
    model = build(spec())
    first = ask(model, tmp_path)
    other = far_from_uniform(build(spec(), seed=9))  # would score differently
    again = ask(other, tmp_path)
    assert torch.equal(first.log_likelihood["joint.model"], again.log_likelihood["joint.model"])
    assert list(first.log_likelihood) == list(again.log_likelihood)  # the columns of a table stay where they are
    assert ask(model, tmp_path, curve_rows=3).evaluation_seconds == first.evaluation_seconds
    fewer = ask(other, tmp_path, rows=5)
    assert len(fewer.log_likelihood["joint.model"]) == 5
    (tmp_path / "likelihood.safetensors").write_bytes(b"half")
    assert ask(model, tmp_path).log_likelihood is not None


def test_a_likelihood_that_is_no_number_is_a_divergence_and_no_number(tmp_path):
    model = build(spec())
    next(model.parameters()).data.fill_(torch.nan)
    found = ask(model, tmp_path)
    assert found.diverged == "the likelihood of joint queries is NaN or infinite"
    assert found.metrics(N, True) == {}


def test_an_energy_head_is_scored_by_all_its_densities(tmp_path):
    rows = numbers()
    head = {"kind": "energy", "num_components": 2, "latent_dim": 4, "hidden": 8, "num_blocks": 1}
    found = ask(build(spec(head=head, rows=rows)), tmp_path, rows)
    names = found.metrics(4, discrete=False)
    assert {"joint", "joint_proposal", "joint_grid", "conditional_proposal"} <= set(names)
    np.testing.assert_allclose(names["joint"], names["joint_grid"], atol=0.3)  # an untrained energy changes little


def test_a_latent_arm_takes_as_many_importance_samples_on_test_rows_as_it_is_told(tmp_path):
    def found(settings, samples):
        network = {"kind": "vae", "latent_dim": 2, "importance_samples": samples, "network": MLP}
        model = far_from_uniform(build(spec("vae", network=network))).float()
        folder = tmp_path / f"{settings.importance_samples}-{samples}"
        folder.mkdir()
        told = {"fabric": one_process(), "arm": "vae", "seed": 0}
        return evaluate(model, letters(), settings, folder, **told).log_likelihood["joint.model"]

    few, many = found(EvaluationSettings(), 2), found(EvaluationSettings(), 50)
    assert torch.equal(found(EvaluationSettings(importance_samples=50), 2), many)
    assert not torch.equal(few, many)
