"""acquire.py as a user would run it, on a table made here."""

import json
import re

import numpy as np
import pytest

from mac_policy.cli.acquire import check_table, experiment_of
from mac_policy.cli.benchmark import read_benchmark
from mac_policy.rows.acquisition.experiment import check_answering
from tests.scripts.helpers import composed, run_here, run_script

SMOKE = ("benchmark=yacht", "preset=smoke", "arms=[sfarm,miwae]", "seeds=[0,1]")


@pytest.fixture(scope="module")
def user(tmp_path_factory):
    """A folder with a table like yacht, whose target is its first column and noise."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "data" / "yacht").mkdir(parents=True)
    rows = np.random.default_rng(1).normal(size=(308, 7))
    rows[:, -1] = rows[:, 0] + 0.1 * rows[:, -1]
    (folder / "data" / "yacht" / "data.txt").write_text("\n".join(" ".join(f"{v:.4f}" for v in row) for row in rows))
    return folder


def run(user, *options):
    return run_here("acquire", *options, cwd=user, MAC_DATA=str(user / "data"))


@pytest.fixture(scope="module")
def done(user):
    return run_script("acquire.py", *SMOKE, cwd=user, MAC_DATA=str(user / "data"), OMP_NUM_THREADS="1")


def test_it_leaves_a_table_results_and_a_picture(user, done):
    code, out, err = done
    assert code == 0, err
    path = user / out.strip().splitlines()[-1]
    assert path == user / "runs/acquire/yacht-smoke/results.json"
    record = json.loads(path.read_text())
    assert list(record["arms"]) == ["sfarm", "miwae"]
    assert record["target"] == [6]
    assert {"schema", "command", "created", "versions", "machine", "dataset"} <= set(record)
    arm = record["arms"]["miwae"]
    assert arm["training_seeds"] == [0, 1]
    assert arm["rows"] == [6, 6]
    for metric in ("rmse", "nll"):
        assert list(arm[metric]["orders"]) == ["model", "shared", "fixed", "random"]
        for found in arm[metric]["orders"].values():
            assert len(found["mean"]) == len(found["ci95"]) == 7
            assert found["needed"] is None or 0 <= found["needed"]["mean"] <= 6
            assert len(found["area"]["per_seed"]) == 2
    assert (path.parent / "curves.png").stat().st_size > 5000
    assert re.search(r"sfarm +│ model", out)
    assert max(len(line) for line in out.splitlines() if "│" in line) <= 100


def test_the_same_command_again_measures_nothing_and_a_change_only_what_it_must(user, done):
    code, out, err = run(user, *SMOKE)
    assert code == 0, err
    assert "acquisition in" not in out
    assert "steps/s" not in out
    code, out, err = run(user, *SMOKE, "random_orders=3")
    assert code == 0, err
    assert out.count("acquisition in") == 4
    assert "steps/s" not in out


def test_arms_that_benchmark_has_trained_are_taken_from_there(user, done):
    options = ("benchmark=sfarm/tables", "preset=smoke", "sets=[yacht]", "arms=[ardm]", "seeds=[0]")
    code, _, err = run_here("benchmark", *options, cwd=user, MAC_DATA=str(user / "data"))
    assert code == 0, err
    code, out, err = run(user, "benchmark=yacht", "preset=smoke", "arms=[ardm]", "seeds=[0]", "out=runs/other")
    assert code == 0, err
    assert "steps/s" not in out
    record = json.loads((user / "runs/other/yacht-smoke/results.json").read_text())
    assert [(user / folder / "config.json").exists() for folder in record["arms"]["ardm"]["checkpoints"]] == [True]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("benchmark=text8",), "error: unknown benchmark 'text8'; allowed are 'energy', 'yacht', 'concrete'"),
        (("arms=[sfram]",), "error: unknown arm 'sfram'; .* did you mean 'sfarm'"),
        (("target=[7]",), r"error: target must list columns in -7..6, got 7"),
        (("orders=[model]",), "error: orders must be different ones, 'random' among them"),
        (("preset=cup",), "error: unknown preset 'cup'; .* did you mean 'cpu'"),
        (("num_sample=3",), "error: unknown option 'num_sample'; .* did you mean 'num_samples'"),
    ],
)
def test_a_mistake_is_one_clean_message(user, options, message):
    code, _, err = run_here(
        "acquire", "benchmark=yacht", "preset=smoke", "out=runs/wrong", *options, cwd=user, MAC_DATA=str(user / "data")
    )
    assert code == 2
    assert re.search(message, err), err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("option", ["target=3", "orders=random", "arms=sfarm", "seeds=3"])
def test_one_where_several_belong_is_refused_with_what_to_write(option):
    name, value = option.split("=")
    with pytest.raises(ValueError, match=rf"^{name} must be a list such as .*; write {name}=\[{value}\]$"):
        experiment_of(composed("acquire", option))


def test_other_training_rows_are_refused_with_a_remedy_that_acquire_has(user, done):
    code, _, err = run(user, *SMOKE, "data.train_rows=50")
    assert code == 2
    assert re.search(r"error: .*holds another run: .* choose another folder for trained arms \(runs=\)", err)
    assert "resume=false" not in err


def test_arms_without_densities_of_parts_are_refused():
    with pytest.raises(ValueError, match=r"the arm 'ddpm' has no density of a variable given others.*'miwae'$"):
        check_answering(["sfarm", "ddpm"])


def test_a_recipe_of_another_table_is_refused():
    for name in ("sfarm/tables", "yacht"):
        check_table(name, read_benchmark(name), "yacht")
    for name, trains in (("sfarm/mnist", "binarized_mnist"), ("energy", "energy")):
        with pytest.raises(ValueError, match=f"recipe '{name}' trains on {trains}, not on 'yacht'"):
            check_table(name, read_benchmark(name), "yacht")
