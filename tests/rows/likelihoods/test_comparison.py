"""A whole comparison: what comes out, what is reused, and what an arm that fails leaves."""

import json
import re

import numpy as np
import pytest
import torch

from mac_policy.rows.likelihoods import comparison as comparing
from mac_policy.rows.likelihoods import training as running
from mac_policy.rows.likelihoods.report import read_metrics, results_table, results_tables, write_curves
from mac_policy.rows.sets.row_set import RowSet
from mac_policy.training.loop import TrainingDiverged
from tests.rows.helpers import compare, letters, numbers, one_process

pytestmark = pytest.mark.filterwarnings("ignore:this query needs")  # the queries are not what is tested

ENERGY = {"kind": "energy", "num_components": 2, "latent_dim": 4, "hidden": 8, "num_blocks": 1}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("done")
    return folder, compare(folder).run(one_process(), quiet=True)


def test_the_record_has_every_arm_with_intervals_and_paired_differences(done):
    folder, record = done
    assert json.loads((folder / "results.json").read_text()) == record
    assert {"schema", "command", "created", "versions", "machine", "dataset", "benchmark", "budget"} <= set(record)
    assert (record["unit"], record["better"]) == ("bits per variable", "lower")
    assert list(record["arms"]) == ["ardm", "mac"]
    for arm in record["arms"].values():
        assert arm["training_seeds"] == [0, 1]
        assert arm["steps"] == [8, 8]
        assert arm["rows"] == [12, 12]
        assert list(arm["metrics"]) == ["joint", "marginal", "marginal_per_asked", "conditional"]
        for metric in arm["metrics"].values():
            assert metric["ci95"][0] <= metric["mean"] <= metric["ci95"][1]
            assert metric["mean"] == pytest.approx(np.mean(metric["per_seed"]))
    assert list(record["paired"]) == ["mac - ardm"]
    for name, difference in record["paired"]["mac - ardm"].items():
        means = [record["arms"][arm]["metrics"][name]["mean"] for arm in ("mac", "ardm")]
        assert difference["mean"] == pytest.approx(means[0] - means[1])
    assert 0.5 < record["arms"]["mac"]["metrics"]["joint"]["mean"] < 1.8  # log2(3) = 1.58 knows nothing


def untimed(arms):
    return {name: {key: value for key, value in arm.items() if "seconds" not in key} for name, arm in arms.items()}


def test_run_again_nothing_is_trained_and_a_further_arm_joins(done, monkeypatch):
    folder, record = done

    def refuse(*_):
        raise AssertionError("trained again")

    monkeypatch.setattr(running.ArmRun, "advance", refuse)
    again = compare(folder).run(one_process(), quiet=True)
    assert untimed(again["arms"]) == untimed(record["arms"])
    monkeypatch.undo()
    third = compare(folder, arms=("ardm", "mac-nocr", "mac")).run(one_process(), quiet=True)
    assert untimed(third["arms"])["mac"] == untimed(record["arms"])["mac"]
    assert set(third["paired"]) == {"mac-nocr - ardm", "mac - ardm", "mac - mac-nocr"}


def test_the_table_and_the_curves(done, tmp_path):
    folder, record = done
    (table,) = results_tables(record)
    assert [column.header for column in table.columns][:3] == ["arm", "joint", "marginal"]
    assert table.row_count == 2
    cells = list(table.columns[1].cells)
    assert cells[0].startswith(f"{record['arms']['ardm']['metrics']['joint']['mean']:.4f} [")
    assert f"{record['paired']['mac - ardm']['joint']['mean']:+.4f} [" in cells[1]
    path = write_curves(record, folder, 1.0, tmp_path / "curves.png")
    assert path.stat().st_size > 5000
    assert read_metrics(folder / "mac-s0" / "metrics.csv")["step"] == [4.0, 8.0]
    assert read_metrics(folder / "absent.csv") == {}


def test_an_arm_that_diverges_is_said_to_have_and_the_others_go_on(tmp_path, monkeypatch):
    real = running.ArmRun.advance

    def diverge(self):
        if self.spec.method == "ardm" and self.seed == 1 and self.step == 3:
            raise self.diverged("loss", self.step)
        return real(self)

    monkeypatch.setattr(running.ArmRun, "advance", diverge)
    record = compare(tmp_path).run(one_process(), quiet=True)
    arm = record["arms"]["ardm"]
    assert "metrics" not in arm
    assert list(arm["diverged"]) == ["1"]
    assert "the loss at step 3 is NaN or infinite" in arm["diverged"]["1"]
    assert "metrics" in record["arms"]["mac"]
    assert record["paired"] == {}
    table = results_table(record, ["joint", "marginal"], "")
    assert next(iter(table.columns[1].cells)) == "diverged (1 of 2)"
    json.dumps(record, allow_nan=False)


def test_when_every_arm_diverges_there_is_still_a_table(tmp_path, monkeypatch):
    def diverge(self):
        raise TrainingDiverged("loss", 0, [0], self.folder)

    monkeypatch.setattr(running.ArmRun, "advance", diverge)
    record = compare(tmp_path, arms=("mac",), seeds=(0,)).run(one_process(), quiet=True)
    (table,) = results_tables(record)
    assert "diverged (1 of 1)" in list(table.columns[1].cells)
    assert write_curves(record, tmp_path, 1.0, tmp_path / "curves.png").exists()


def test_tables_of_numbers_are_scored_in_nats_by_every_density(tmp_path):
    record = compare(tmp_path, rows=numbers(), head=ENERGY, seeds=(0,), evaluation={"cardinalities": (3,)}).run(
        one_process(), quiet=True
    )
    assert (record["unit"], record["better"]) == ("nats", "higher")
    metrics = record["arms"]["mac"]["metrics"]
    assert {"joint", "joint_proposal", "joint_grid", "marginal-3", "marginal-3_proposal"} <= set(metrics)
    titles = [table.title for table in results_tables(record)]
    assert len(titles) == 3
    assert "proposal" in titles[1]
    assert metrics["joint"]["mean"] == pytest.approx(metrics["joint_grid"]["mean"], abs=0.5)


def test_random_splits_resample_rows_within_their_seed(tmp_path):
    def load(seed):
        return letters(seed=seed)

    chosen = compare(tmp_path)
    chosen = comparing.Comparison(**{**vars(chosen), "load": load, "random_splits": True})
    record = chosen.run(one_process(), quiet=True)
    assert (
        record["paired"]["mac - ardm"]["joint"]["per_seed"][0] != record["paired"]["mac - ardm"]["joint"]["per_seed"][1]
    )


def test_wrong_comparisons_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"seeds must be one or more different numbers, got \[1, 1\]"):
        compare(tmp_path, seeds=(1, 1))
    with pytest.raises(ValueError, match=r"seeds\[0\] must be a whole number of at least 0, got -1"):
        compare(tmp_path, seeds=(-1,))
    with pytest.raises(ValueError, match="which the arm mac-path asks, 'path'"):
        compare(tmp_path, arms=("mac-path",))
    with pytest.raises(ValueError, match=r"cardinalities must be in 1..6, got 7"):
        compare(tmp_path, seeds=(0,), evaluation={"cardinalities": (7,)}).run(one_process(), quiet=True)


def test_training_teaches_what_the_rows_have_to_teach(tmp_path):
    rows = letters(train=600)
    trained = compare(tmp_path, arms=("mac",), seeds=(0,), rows=rows, steps=150, validations=1)
    record = trained.run(one_process(), quiet=True)
    # H = log2(3) + 5 steps of a chain that stays with probability 0.8 + 0.2/3, a third of the rest each: 0.88 bits
    stay = 0.8 + 0.2 / 3
    chain = -stay * np.log2(stay) - (1 - stay) * np.log2((1 - stay) / 2)
    entropy = (np.log2(3) + 5 * chain) / 6
    assert record["arms"]["mac"]["metrics"]["joint"]["mean"] == pytest.approx(entropy, abs=0.12)


def test_the_order_of_the_arms_changes_nothing(tmp_path):
    rows: RowSet = letters()
    first = compare(tmp_path / "a", arms=("ardm", "mac"), seeds=(0,), rows=rows).run(one_process(), quiet=True)
    second = compare(tmp_path / "b", arms=("mac", "ardm"), seeds=(0,), rows=rows).run(one_process(), quiet=True)
    for arm in ("ardm", "mac"):
        assert first["arms"][arm]["metrics"] == second["arms"][arm]["metrics"]
    assert (
        torch.tensor(first["paired"]["mac - ardm"]["joint"]["mean"]) == -second["paired"]["ardm - mac"]["joint"]["mean"]
    )


@pytest.mark.parametrize(
    ("rows", "unit", "factor"), [("letters", "bits per variable", 1.4427), ("numbers", "nats", -4)]
)
def test_progress_has_the_unit_and_the_sign_of_the_table(tmp_path, capsys, rows, unit, factor):
    chosen = {"rows": numbers(), "head": ENERGY} if rows == "numbers" else {}
    record = compare(tmp_path, arms=("mac",), seeds=(0,), **chosen).run(one_process())
    line = [line for line in capsys.readouterr().out.splitlines() if "validation rows" in line][-1]
    joint, marginal, named = re.search(r"joint (\S+), marginal (\S+) (.*?) \(", line).groups()
    kept = read_metrics(tmp_path / "mac-s0" / "metrics.csv")
    assert named == record["unit"] == unit
    assert float(joint) == pytest.approx(factor * kept["joint"][-1], rel=1e-3)
    assert float(marginal) == pytest.approx(factor * kept["marginal"][-1], rel=1e-3)
