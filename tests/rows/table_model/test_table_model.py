"""A model of a table: queries, units, files and errors. Closed forms are in test_closed_form."""

import json
import math
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from mac_policy import CheckpointError, TableModel
from mac_policy.core import UntrainedQueryWarning
from tests.rows.helpers import threads_of_fit

SMALL = {"steps": 40, "width": 16, "depth": 1, "num_components": 3, "batch_size": 64, "members": 2}


def houses(rows=200):
    rng = np.random.default_rng(0)
    size = rng.normal(100, 20, rows)
    table = {
        "size": size,
        "price": 3e4 * size + 1e5 * rng.normal(size=rows),
        "rooms": np.rint(size / 20).astype(np.int64),
        "garden": np.where(size > 100, "yes", "no").astype(object),
        "town": np.full(rows, 7.0),
    }
    table["price"][::5] = np.nan
    table["garden"][1::7] = None
    return table


@pytest.fixture(scope="module")
def model():
    return TableModel(**SMALL).fit(houses())


def test_the_chain_rule_holds_along_the_columns(model):
    table, names = houses(), ["size", "price", "rooms", "garden"]
    joint = model.log_prob(table)
    first = model.log_prob(table, query=names[:2])
    rest = model.log_prob(table, query=names[2:], given=names[:2])
    np.testing.assert_allclose(joint, first + rest, rtol=1e-9)


def test_missing_values_are_left_out_row_by_row(model):
    table = houses()
    whole = model.log_prob(table, query=["price", "garden"], given=["size"])
    hole = np.isnan(table["price"])
    only = model.log_prob(table, query=["garden"], given=["size"])
    np.testing.assert_allclose(whole[hole], only[hole])
    assert (model.log_prob({"size": [None]}) == 0).all()


def test_a_density_is_in_the_units_of_the_table_and_a_category_sums_to_one(model):
    grid = np.linspace(-20, 220, 4001)
    density = np.exp(model.log_prob({"size": grid, "garden": ["yes"] * len(grid)}, query=["size"], given=["garden"]))
    assert abs(density.sum() * (grid[1] - grid[0]) - 1) < 1e-3
    both = model.log_prob({"garden": ["yes", "no"], "size": [90.0, 90.0]}, query=["garden"], given=["size"])
    assert abs(np.exp(both).sum() - 1) < 1e-9


def test_changing_the_unit_of_a_column_changes_its_density_by_that_factor():
    table = houses()
    other = {**table, "size": table["size"] / 1000}
    first, second = (TableModel(**SMALL).fit(each).log_prob(each) for each in (table, other))
    np.testing.assert_allclose(second, first + np.log(1000), atol=1e-3)


def test_conditionals_are_the_densities_of_single_columns(model):
    known = {"size": [80.0, 120.0], "rooms": [4, None]}
    found = model.conditionals(known)
    assert set(found) == {"price", "rooms", "garden"}
    price = [3e6, 2e6]
    expected = model.log_prob({**known, "price": price}, query=["price"], given=["size", "rooms"])
    np.testing.assert_allclose(found["price"].log_prob(price), expected)
    expected = model.log_prob({**known, "garden": ["no", "yes"]}, query=["garden"], given=["size", "rooms"])
    np.testing.assert_allclose(found["garden"].log_prob(["no", "yes"]), expected)
    np.testing.assert_allclose(found["garden"].probabilities.sum(1), 1)
    assert found["garden"].mode[0] == found["garden"].classes[int(found["garden"].probabilities[0].argmax())]


def test_mean_standard_deviation_and_quantiles_are_those_of_the_density(model):
    found = model.conditionals({"size": 110.0})["price"]
    grid = np.linspace(-2e6, 8e6, 40_001)
    density = np.exp(
        model.log_prob({"size": np.full(len(grid), 110.0), "price": grid}, query=["price"], given=["size"])
    )
    weights = density / density.sum()
    mean = (weights * grid).sum()
    assert abs(found.mean[0] - mean) < 1e-4 * abs(mean)
    assert abs(found.std[0] - np.sqrt((weights * (grid - mean) ** 2).sum())) < 1e-3 * found.std[0]
    low, high = found.interval(0.8)
    assert abs(weights[(grid >= low[0]) & (grid <= high[0])].sum() - 0.8) < 1e-3
    assert found.quantile(0)[0] == -np.inf
    assert found.quantile(1)[0] == np.inf


def test_samples_keep_what_is_known_and_have_the_types_of_the_table(model):
    drawn = model.sample({"size": [80.1, None], "garden": [None, "yes"]}, n_samples=50)
    assert list(drawn) == ["size", "price", "rooms", "garden", "town"]
    assert (drawn["size"][:50] == 80.1).all()
    assert set(drawn["garden"][50:]) == {"yes"}
    assert set(drawn["garden"][:50]) <= {"yes", "no"}
    assert drawn["rooms"].dtype == np.int64
    assert len(set(drawn["price"])) == 100
    assert (drawn["town"] == 7).all()
    assert len(model.sample()["size"]) == 1
    again = model.sample({"size": [80.1, None], "garden": [None, "yes"]}, n_samples=50)
    assert np.array_equal(drawn["price"], again["price"])
    assert not np.array_equal(
        drawn["price"], model.sample({"size": [80.1, None]}, n_samples=50, random_state=1)["price"]
    )


def test_samples_follow_the_conditionals(model):
    found, drawn = model.conditionals({"size": 110.0}), model.sample({"size": 110.0}, n_samples=4000)
    share = (drawn["garden"] == "yes").mean()
    price = found["price"]
    assert abs(drawn["price"].mean() - price.mean[0]) < 5 * price.std[0] / np.sqrt(4000)
    garden = found["garden"]
    probability = garden.probabilities[0, garden.classes.index("yes")]
    assert abs(share - probability) < 0.1  # given the price and the rooms too, which are drawn before


def test_a_frame_goes_in_and_comes_out():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(houses(), index=np.arange(200) * 3)
    table["garden"] = table["garden"].astype("category")
    model = TableModel(**SMALL).fit(table)
    drawn = model.sample(table)
    assert (drawn.dtypes == table.dtypes).all()
    assert drawn.index.equals(table.index)
    for name in table:
        seen = table[name].notna()
        assert (drawn[name][seen] == table[name][seen]).all(), name
    assert not drawn.isna().any().any()
    assert model.log_prob(table).shape == (200,)
    assert model.sample({"garden": "yes"}, n_samples=3)["garden"].tolist() == ["yes"] * 3


def test_an_array_has_columns_x0_x1_or_names():
    rows = np.random.default_rng(0).normal(size=(100, 3))
    model = TableModel(**SMALL).fit(rows)
    assert model.sample({"x1": 0.5}, n_samples=4).shape == (4, 3)
    named = TableModel(names=["a", "b", "c"], **SMALL).fit(rows)
    np.testing.assert_array_equal(named.log_prob(rows, query=["b"]), model.log_prob(rows, query=["x1"]))


@pytest.mark.parametrize("factorization", ["any", "uniform", "marginal"])
def test_a_saved_model_answers_the_same(tmp_path, factorization):
    table = houses()
    model = TableModel(factorization=factorization, random_state=3, **SMALL).fit(table)
    again = TableModel.load(model.save(tmp_path / "houses"))
    assert sorted(path.name for path in (tmp_path / "houses").iterdir()) == ["config.json", "model.safetensors"]
    np.testing.assert_array_equal(again.log_prob(table), model.log_prob(table))
    first, second = model.sample(n_samples=5), again.sample(n_samples=5)
    assert all(np.array_equal(first[name], second[name]) for name in first)
    assert again.training == model.training
    assert again.columns == model.columns


@pytest.mark.parametrize("classes", [range(5), np.arange(5)])
def test_declared_classes_may_be_any_sequence_and_are_stored(tmp_path, classes):
    table = {"kind": np.arange(40) % 4, "size": np.arange(40.0)}
    model = TableModel(kinds={"kind": classes}, **SMALL).fit(table)
    assert model.columns.column("kind").classes == (0, 1, 2, 3, 4)
    loaded = TableModel.load(model.save(tmp_path))
    assert list(loaded.kinds["kind"]) == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(loaded.log_prob(table), model.log_prob(table))


def test_a_fit_is_repeatable_and_leaves_the_global_generator_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first, second = (TableModel(**SMALL).fit(houses()).log_prob(houses()) for _ in range(2))
    assert np.array_equal(first, second)
    assert torch.equal(torch.rand(3), expected)


def test_early_stopping_keeps_the_best_weights():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(120, 4))
    model = TableModel(steps=800, patience=60, batch_size=64).fit(table)
    assert model.training["steps"] < 800
    assert model.training["best_step"] < model.training["steps"]
    without = TableModel(steps=50, validation=0.0, width=16).fit(table)
    assert without.training == {"rows": 120, "steps": 50, "validation_loss": None, "best_step": 50}


def test_whole_numbers_have_probabilities_that_samples_follow(model):
    counts = np.arange(-30, 60)
    asked = {"size": np.full(len(counts), 90.0), "rooms": counts}
    chances = np.exp(model.log_prob(asked, query=["rooms"], given=["size"]))
    assert abs(chances.sum() - 1) < 1e-6
    np.testing.assert_allclose(np.exp(model.conditionals({"size": 90.0})["rooms"].log_prob(counts[35:36])), chances[35])
    drawn = model.sample({"size": 90.0}, 4000)["rooms"]
    shares = (drawn[:, None] == counts).mean(0)
    assert np.abs(shares - chances).max() < 4 * np.sqrt(0.25 / 4000)


def test_whole_numbers_are_modelled_as_well_as_the_best_that_knows_their_law():
    rng = np.random.default_rng(0)
    cause = rng.normal(size=1600)
    table = {"cause": cause, "count": rng.poisson(np.exp(0.5 * cause))}
    model = TableModel().fit({name: values[:600] for name, values in table.items()})
    held_out = {name: values[600:] for name, values in table.items()}
    rate, count = np.exp(0.5 * held_out["cause"]), held_out["count"]
    true = count * np.log(rate) - rate - np.array([math.lgamma(k + 1) for k in count])
    lost = true - model.log_prob(held_out, query=["count"], given=["cause"])
    assert lost.mean() < 0.05


def test_a_small_group_far_away_is_no_error():
    """Of 2,000 counts 18 are 50, and all others 0 or 1."""
    rng = np.random.default_rng(0)
    cause = rng.normal(size=2000)
    table = {"cause": cause, "count": np.where(cause > 2.36, 50, (cause > 0).astype(int))}
    assert 12 < (table["count"] == 50).sum() < 25
    model = TableModel(steps=400, random_state=0).fit(table)
    asked = model.conditionals({"cause": [3.0, None], "count": [None, 50]})
    assert asked["count"].mean[0] > 2
    assert asked["cause"].mean[1] > 1.5


@pytest.mark.parametrize("wild", [1e7, -1.797e308, 1e162])
def test_a_lone_wild_cell_does_not_set_the_scale(wild):
    values = np.append(np.random.default_rng(0).normal(size=99), wild)
    column = TableModel(**SMALL).fit({"a": values, "b": np.arange(100.0)}).columns.column("a")
    assert 0.8 < column.scale < 1.2
    nearly = TableModel(**SMALL).fit({"a": np.append(np.full(99, 0.3), 5.0), "b": np.arange(100.0)})
    assert 0.1 < nearly.columns.column("a").scale < 1


def test_a_model_that_was_stored_before_numbers_were_left_out_loads(tmp_path, model):
    folder = model.save(tmp_path)
    tensors = load_file(folder / "model.safetensors")
    kept = {name: value for name, value in tensors.items() if not name.endswith((".least", ".most"))}
    assert len(kept) == len(tensors) - 2
    save_file(kept, folder / "model.safetensors")
    np.testing.assert_array_equal(TableModel.load(folder).log_prob(houses()), model.log_prob(houses()))


def test_a_model_of_categories_in_an_earlier_format_is_refused(tmp_path, model):
    folder = model.save(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    del config["format"]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=r"stored in format 1 and .* reads format 2: fit it again"):
        TableModel.load(folder)


def test_random_orders_are_the_same_for_all_rows():
    model = TableModel(factorization="uniform", **SMALL).fit(houses())
    table = houses(20)
    one = {name: values[3:4] for name, values in table.items()}
    for orders in (1, 3):
        np.testing.assert_allclose(model.log_prob(table, orders=orders)[3], model.log_prob(one, orders=orders)[0])
    assert model.log_prob(one, orders=1) != model.log_prob(one, orders=3)


def test_rows_that_know_a_column_have_no_conditional_of_it(model):
    found = model.conditionals({"size": [90.0, None], "garden": [None, "yes"]})
    assert np.isnan(found["size"].mean).tolist() == [True, False]
    assert np.isnan(found["garden"].probabilities).all(1).tolist() == [False, True]
    assert found["garden"].mode[1] is None
    assert found["garden"].mode[0] in ("no", "yes")


@pytest.mark.parametrize(("n_jobs", "threads"), [(None, 1), (2, 2)])
def test_a_fit_takes_its_threads_and_leaves_pytorch_its_own(n_jobs, threads, monkeypatch):
    import mac_policy.rows.table_model.model as module

    seen = threads_of_fit(monkeypatch, module, lambda: TableModel(n_jobs=n_jobs, **SMALL).fit(houses()))
    assert seen == [threads]


def test_a_setting_that_trains_fewer_queries_warns():
    model = TableModel(factorization="marginal", **SMALL).fit(houses())
    with pytest.warns(UntrainedQueryWarning, match="query='both'") as caught:
        model.log_prob(houses(), given=["garden"])
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        full = TableModel(**SMALL).fit(houses())
        full.log_prob(houses(), given=["garden"])
        full.sample({"garden": "yes"})
        full.conditionals({"garden": "yes"})


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda m: m.log_prob(houses(), query=["prize"]), "no column 'prize'.*did you mean 'price'"),
        (lambda m: m.log_prob(houses(), query="price"), r"query must be a list of columns.*query=\['price'\]"),
        (lambda m: m.log_prob(houses(), query=["price"], given=["price"]), "must not overlap"),
        (lambda m: m.log_prob({"size": [1.0]}, query=["price"]), r"query names the column 'price'.* it has \['size'\]"),
        (lambda m: m.log_prob({"size": [1.0]}, given=["price"]), r"given names the column 'price'.* it has \['size'\]"),
        (lambda m: m.sample({"garden": "maybe"}), "'garden' has the class 'maybe'.*'no', 'yes'"),
        (lambda m: m.sample({"sice": 3.0}), "no column 'sice'.*did you mean 'size'"),
        (lambda m: m.sample(n_samples=0), "n_samples must be a whole number"),
        (lambda m: m.log_prob(houses(), orders=4), "orders=4 averages.*factorization='any' answers along one"),
        (lambda m: m.log_prob(houses(), orders=0), "orders must be a whole number"),
        (lambda m: TableModel(n_jobs=0), "n_jobs must be a whole number"),
        (lambda m: m.conditionals({"size": 1.0})["price"].log_prob([1.0, 2.0]), r"shape \(1,\).*\(2,\)"),
        (lambda m: TableModel().log_prob(houses()), "call fit"),
        (lambda m: TableModel(stebs=3), "unknown key in the settings of a TableModel 'stebs'.*'steps'"),
        (lambda m: TableModel(factorization="all"), "unknown factorization 'all'"),
        (lambda m: TableModel().fit(np.ones((5, 2))), "no column of the table has two different values in its 5 rows"),
        (lambda m: TableModel().fit(np.empty((0, 2))), "no column .* in its 0 rows"),
        (
            lambda m: TableModel(kinds={"x0": [1, 2]}).fit(np.ones((1, 2))),
            "has 1 rows with values: fit needs at least two",
        ),
        (lambda m: TableModel().fit("my.csv"), "or a DataFrame, got 'my.csv' of type str"),
        (lambda m: TableModel().fit([{"a": 1.0}, {"a": 2.0}]), "or a DataFrame, got .* of type list"),
        (lambda m: TableModel().fit(np.ones(5)), r"or a DataFrame, got an array of shape \(5,\)"),
        (lambda m: TableModel(kinds="real").fit(houses()), "kinds must be a mapping"),
        (lambda m: TableModel(kinds={"size": 5}).fit(houses()), "kind of the column 'size' must be one of .*got 5"),
        (lambda m: TableModel(names="ab").fit(np.ones((5, 2))), "names must be a list"),
        (lambda m: TableModel(names=["a"]).fit(houses()), "names are those of an array's columns"),
    ],
)
def test_a_wrong_question_is_refused(model, ask, message):
    with pytest.raises(ValueError, match=message):
        ask(model)


def test_a_damaged_folder_is_named(tmp_path, model):
    with pytest.raises(CheckpointError, match="nowhere is not the folder of a TableModel"):
        TableModel.load(tmp_path / "nowhere")
    folder = model.save(tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    for key, value, message in (("schema", 9, "schema 9"), ("settings", {"width": 17}, "has shape|lacks the tensor")):
        (folder / "config.json").write_text(json.dumps(config | {key: value}))
        with pytest.raises(CheckpointError, match=message):
            TableModel.load(folder)
    (folder / "config.json").write_text(json.dumps(config))
    tensors = load_file(folder / "model.safetensors")
    for wrong in ({"network.widening": -tensors["network.widening"]}, {"network.heat": torch.zeros(()).double()}):
        save_file(tensors | wrong, folder / "model.safetensors")
        with pytest.raises(CheckpointError, match=r"model\.safetensors: .* must be above 0"):
            TableModel.load(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match="not JSON"):
        TableModel.load(folder)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(b"123")
    with pytest.raises(CheckpointError, match="truncated or damaged"):
        TableModel.load(folder)


CORE_ALONE = """
import builtins, sys
real, optional = builtins.__import__, {"pandas", "sklearn", "lightning_fabric", "rich", "matplotlib", "hydra", "h5py"}
def only_core(name, *args, **kwargs):
    if name.split(".")[0] in optional:
        raise ModuleNotFoundError(name)
    return real(name, *args, **kwargs)
builtins.__import__ = only_core
import numpy as np
from mac_policy import TableModel
table = np.random.default_rng(0).normal(size=(50, 2))
model = TableModel(steps=5, width=8, depth=1).fit(table)
model = model.load(model.save(sys.argv[1]))
model.sample({"x0": 1.0}), model.log_prob(table), model.conditionals({"x0": 1.0})["x1"].mean
print("done")
"""


def test_the_core_install_is_enough(tmp_path):
    command = [sys.executable, "-c", CORE_ALONE, str(tmp_path / "m")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "done", done.stderr
