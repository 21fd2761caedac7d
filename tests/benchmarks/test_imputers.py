"""benchmarks/imputers.py and benchmarks/acquisition.py: tiny runs, their parts, and what they refuse."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

from benchmarks import acquisition, imputer_speed, imputers
from benchmarks.imputation.errors import crps, errors_of, split_coverage
from benchmarks.imputation.imputers import Encoding, Filled, MeanOrMostFrequent, Ours, refuse_means
from benchmarks.imputation.tables import TABLES, hidden_cells


@pytest.fixture(autouse=True)
def threads():
    """The benchmarks set the number of threads of the process."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def small_table(rows=80):
    rng = np.random.default_rng(0)
    size = rng.normal(size=rows)
    return pd.DataFrame(
        {"size": size, "twice": 2 * size, "sort": pd.Categorical(np.where(size > 0, "high", "low"), ["high", "low"])}
    )


@pytest.fixture
def tiny(monkeypatch):
    settings = {"steps": 2, "members": 1, "width": 8, "depth": 1, "num_components": 2}
    made = {"Imputer": Ours(tuple(settings.items())), "mean": MeanOrMostFrequent()}
    for name, value in (("IMPUTERS", made), ("TABLES", {"small": lambda root: small_table()})):
        monkeypatch.setattr(imputers, name, value)


def test_a_comparison_is_measured_once_and_resumed(tiny, tmp_path, capsys):
    arguments = ["--laws", "random-0.2", "value-0.3", "--masks", "0", "1", "--out", str(tmp_path)]
    imputers.main(arguments)
    assert len(list((tmp_path / "measured").iterdir())) == 8
    record = json.loads((tmp_path / "results.json").read_text())
    first, second = record["results"]
    assert (first["table"], first["law"], second["law"]) == ("small", "random-0.2", "value-0.3")
    assert first["imputers"]["mean"]["nrmse"]["mean"] == pytest.approx(1.0, abs=0.3)
    ours = first["imputers"]["Imputer"]
    assert ours["nrmse"]["mean"] < 0.9
    assert ours["nrmse_difference"]["mean"] == 0
    assert ours["nrmse"]["interval"] == "Student t over masks"
    assert first["imputers"]["mean"]["nrmse_difference"]["mean"] == pytest.approx(
        ours["nrmse"]["mean"] - first["imputers"]["mean"]["nrmse"]["mean"]
    )
    assert record["nrmse_ranks"] == {"Imputer": 1.0, "mean": 2.0}
    assert record["nrmse_behind"] == []
    rows = [line.split(" | ") for line in (tmp_path / "table.md").read_text().splitlines()[2:]]
    assert [row[0].strip("| ") + row[2] for row in rows] == ["smallnumbers", "smallclasses"] * 2
    assert {len(row) for row in rows} == {7}
    assert rows[0][3] == f"{ours['nrmse']['mean']:.3f}"
    capsys.readouterr()
    imputers.main(arguments)
    assert "small-" not in capsys.readouterr().out
    assert json.loads((tmp_path / "results.json").read_text())["results"] == record["results"]


@pytest.mark.parametrize("law", imputers.LAWS)
def test_hidden_cells_are_as_many_as_the_law_says_and_leave_two_values(law):
    table = small_table(4000)
    table.iloc[:1000, 0] = np.nan
    hidden = hidden_cells(table, law, 0)
    assert not hidden[table.isna().to_numpy()].any()
    assert hidden[:, 1].mean() == pytest.approx(float(law.split("-")[1]), abs=0.03)
    assert np.array_equal(hidden, hidden_cells(table, law, 0))
    assert not np.array_equal(hidden, hidden_cells(table, law, 1))
    great = table["twice"].rank(pct=True).to_numpy() > 0.5
    ratio = hidden[great, 1].mean() / hidden[~great, 1].mean()
    assert ratio == pytest.approx(3 if law.startswith("value") else 1, rel=0.15)
    few = pd.DataFrame({"a": [1.0, 1.0, 2.0], "b": pd.Categorical(["x", "y", "y"])})
    for mask in range(20):
        assert (few.mask(hidden_cells(few, "random-0.9", mask)).nunique() == 2).all()


def test_errors_of_cells_and_draws():
    table = small_table()
    hidden = hidden_cells(table, "random-0.4", 0)
    rows = np.arange(40)
    filled = table.copy()
    filled["size"] += 0.5 * table["size"].std(ddof=0)
    filled["sort"] = filled["sort"].cat.rename_categories({"high": "low", "low": "high"})
    draws = np.random.default_rng(1).normal(size=(200, 40, 2)) * 100
    found = errors_of(Filled(filled, draws, 1.0, 2.0, False), table, hidden, rows)
    share = hidden[:, 0].sum() / hidden[:, :2].sum()
    assert found["nrmse"] == pytest.approx(0.5 * np.sqrt(share))
    assert found["wrong_classes"] == 1
    assert found["coverage"] == 1
    exact = errors_of(Filled(table, None, 1.0, 2.0, False), table, hidden, rows)
    assert (exact["nrmse"], exact["wrong_classes"], exact["coverage"], exact["crps"]) == (0, 0, None, 0)


@pytest.mark.parametrize("counts", [(40, 100, 60), (4, 192, 4), (200, 0, 0), (1,) * 200])
def test_split_coverage_of_numbers_on_levels_is_that_of_the_interval(counts):
    draws = np.repeat(np.arange(len(counts), dtype=float), counts)
    covered = split_coverage(np.tile(draws[:, None], (1, 200)), draws)  # each draw takes the part of the value once
    assert covered.mean() == pytest.approx(0.9)


def test_crps_is_the_mean_over_pairs():
    rng = np.random.default_rng(0)
    draws, values = rng.normal(size=(30, 4)), rng.normal(size=4)
    slow = []
    for column, value in enumerate(values):
        one = draws[:, column]
        pairs = [abs(a - b) for i, a in enumerate(one) for j, b in enumerate(one) if i != j]
        slow.append(np.mean(abs(one - value)) - np.mean(pairs) / 2)
    assert crps(draws, values) == pytest.approx(slow)


def test_an_imputer_that_falls_back_to_means_is_refused():
    values = np.array([[1.0, np.nan], [np.nan, 4.0], [3.0, 8.0]])
    with pytest.raises(ValueError, match="the mean of its column"):
        refuse_means(np.array([[1.0, 6.0], [2.0, 4.0], [3.0, 8.0]]), values, "a peer")
    refuse_means(np.array([[1.0, 6.0], [2.5, 4.0], [3.0, 8.0]]), values, "a peer")
    refuse_means(values[2:], values[2:], "a peer")


def test_encoding_and_back():
    table = small_table()
    table["three"] = pd.Categorical(np.array(["x", "y", "z"])[np.arange(80) % 3], ["x", "y", "z"])
    encoding = Encoding(table)
    whole = encoding.encode(table)
    assert whole.shape == (80, 5)
    holed = table.mask(np.random.default_rng(0).random(table.shape) < 0.5)
    assert np.isnan(encoding.encode(holed)).any()
    again = encoding.decode(whole, holed)
    pd.testing.assert_frame_equal(again, table)


@pytest.mark.parametrize("name", ["wine", "diabetes", "breast_cancer", "iris", "digits"])
def test_tables_that_scikit_learn_ships(name):
    table = TABLES[name](None)
    assert table.notna().all(axis=None)
    assert (table.nunique() > 1).all()
    assert all(kind == np.float64 or isinstance(kind, pd.CategoricalDtype) for kind in table.dtypes)


def test_speed_of_large_tables(monkeypatch, tmp_path):
    monkeypatch.setattr(imputer_speed, "TABLES", {"small": lambda generator: generator.normal(size=(40, 3))})
    imputer_speed.main(["--steps", "2", "--out", str(tmp_path)])
    found = json.loads((tmp_path / "results.json").read_text())["tables"]["small"]
    assert found["Imputer"]["steps"] == 2
    assert {"fit", "transform", "score_samples", "sample", "nrmse"} <= set(found["Imputer"])
    assert found["IterativeImputer"]["nrmse"] == pytest.approx(1, abs=0.4)


def test_acquisition_speed_of_few_draws(monkeypatch, tmp_path):
    monkeypatch.setattr(acquisition, "MODELS", dict(list(acquisition.MODELS.items())[:1]))
    acquisition.main(["--samples", "2", "--repeats", "2", "--threads", "1", "--out", str(tmp_path)])
    (found,) = json.loads((tmp_path / "results.json").read_text())["models"].values()
    assert found["latency_ms"]["p50"] > 0


@pytest.mark.parametrize(
    ("benchmark", "arguments", "message"),
    [
        (imputers, ["--laws", "random"], "--laws: invalid choice: 'random'"),
        (imputers, ["--threads", "0"], "--threads: must be a whole number of at least 1, got '0'"),
        (imputers, ["--masks", "-1"], "--masks: "),
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
