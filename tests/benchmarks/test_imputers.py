"""benchmarks/imputers.py and benchmarks/acquisition.py: tiny runs, and what they refuse."""

import json

import numpy as np
import pytest
import torch

from benchmarks import acquisition, imputers
from mac_policy import Imputer


@pytest.fixture(autouse=True)
def threads():
    """The benchmarks set the number of threads of the process."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def tiny(monkeypatch):
    made = {"Imputer": lambda seed: Imputer(steps=2, width=8, depth=1, random_state=seed)}
    monkeypatch.setattr(imputers, "IMPUTERS", made | {"mean": imputers.IMPUTERS["mean"]})


def test_imputers_on_a_table_and_on_a_large_one(tiny, tmp_path):
    (tmp_path / "yacht").mkdir()
    rows = np.random.default_rng(0).normal(size=(308, 7))
    (tmp_path / "yacht" / "data.txt").write_text("\n".join(" ".join(map(str, row)) for row in rows))
    where = ["--root", str(tmp_path), "--out", str(tmp_path / "out"), "--threads", "1"]
    imputers.main(["--tables", "yacht", "--shares", "0.3", "--seeds", "0", "--large", "30", "4", *where])
    record = json.loads((tmp_path / "out/results.json").read_text())
    assert record["tables"][0]["imputers"]["mean"]["nrmse"]["mean"] == pytest.approx(1.0, abs=0.1)
    assert record["large"]["rows"] == 30
    imputers.main(["--tables", "--large", "30", "4", *where])
    assert json.loads((tmp_path / "out/results.json").read_text())["tables"] == []


def test_numbers_are_kept_for_the_same_settings_and_threads_alone(tmp_path):
    torch.set_num_threads(1)
    of = [imputers.facts_of(imputer) for imputer in (Imputer(), Imputer(dropout=0.2), imputers.SimpleImputer())]
    torch.set_num_threads(2)
    of.append(imputers.facts_of(Imputer()))
    asked = []
    for number, facts in enumerate([*of, of[-1]]):
        imputers._kept_or(tmp_path / "kept.json", facts, lambda n=number: asked.append(n) or {"n": n})
    assert asked == [0, 1, 2, 3]
    assert {"torch", "numpy", "scikit-learn"} <= set(of[0]["versions"])


def test_acquisition_speed_of_few_draws(monkeypatch, tmp_path):
    monkeypatch.setattr(acquisition, "MODELS", dict(list(acquisition.MODELS.items())[:1]))
    acquisition.main(["--samples", "2", "--repeats", "2", "--threads", "1", "--out", str(tmp_path)])
    (found,) = json.loads((tmp_path / "results.json").read_text())["models"].values()
    assert found["latency_ms"]["p50"] > 0


@pytest.mark.parametrize(
    ("benchmark", "arguments", "message"),
    [
        (imputers, ["--shares", "1.5"], "--shares: must be a number above 0 and below 1, got '1.5'"),
        (imputers, ["--threads", "0"], "--threads: must be a whole number of at least 1, got '0'"),
        (imputers, ["--seeds", "-1"], "--seeds: "),
        (imputers, ["--tables", "nope"], "--tables: invalid choice: 'nope'"),
        (imputers, ["--root", "/nope"], "--root: there is no folder /nope"),
        (acquisition, ["--samples", "0"], "--samples: must be a whole number of at least 1, got '0'"),
        (acquisition, ["--repeats", "0"], "--repeats: must be a whole number of at least 1, got '0'"),
    ],
)
def test_a_wrong_option_is_one_line(benchmark, arguments, message, capsys):
    with pytest.raises(SystemExit) as exit_of:
        benchmark.main(arguments)
    assert exit_of.value.code == 2
    assert message in capsys.readouterr().err
