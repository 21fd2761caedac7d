"""Every configuration that ships describes a comparison; what does not is refused by name."""

from dataclasses import fields
from pathlib import Path

import pytest
import torch
import yaml

from mac_policy.cli.benchmark import read_benchmark
from mac_policy.rows.likelihoods.presets import chosen, make_comparison, merged
from mac_policy.rows.likelihoods.queries import EvaluationSettings
from mac_policy.rows.methods import FIGURE_3, METHODS
from mac_policy.rows.sets.registry import SETS, load_rows
from mac_policy.rows.sets.tables import TABLES
from mac_policy.rows.sets.uci import UCI_SHAPES
from mac_policy.rows.spec import ModelSpec, build, make_head, make_network

FOLDER = Path(__file__).parents[3] / "configs" / "benchmark"
NAMES = sorted(path.stem for path in FOLDER.glob("[!_]*.yaml"))
SFARM = sorted(path.stem for path in (FOLDER / "sfarm").glob("*.yaml"))
SHAPES = {
    "text8": (250,), "mnist": (1, 28, 28), "fashion-mnist": (1, 28, 28), "binarized_mnist": (1, 28, 28),
    "cifar10": (3, 32, 32), "imagenet32": (3, 32, 32), "celeba64": (3, 64, 64), "imagenet64": (3, 64, 64),
    **{name: (table.columns,) for name, table in TABLES.items()},
    **{name: (shape[1],) for name, shape in UCI_SHAPES.items()},
    "table": (5,),
}  # fmt: skip
LEVELS = {
    "text8": 27, "mnist": 256, "fashion-mnist": 256, "binarized_mnist": 2, "cifar10": 256, "imagenet32": 256,
    "celeba64": 256, "imagenet64": 256,
}  # fmt: skip


def test_every_data_set_has_a_benchmark():
    assert set(NAMES) == set(SETS)
    for name in NAMES:
        assert read_benchmark(name)["base"]["data"]["name"] == name


@pytest.mark.parametrize("preset", ["smoke", "cpu", "paper"])
@pytest.mark.parametrize("name", NAMES)
def test_every_preset_describes_a_comparison_whose_models_can_be_built(tmp_path, name, preset):
    comparison = make_comparison(name, chosen(read_benchmark(name), preset), FIGURE_3, tmp_path)
    spec = ModelSpec(
        "mac", SHAPES[name], LEVELS.get(name), comparison.networks["set"], comparison.head, comparison.order
    )
    if preset != "paper":  # those of the paper take gigabytes: see the slow tests
        assert build(spec).num_variables == spec.num_variables
    if "path" in comparison.networks and preset == "smoke":
        build(ModelSpec("mac-path", spec.shape, spec.levels, comparison.networks["path"], spec.head))
    assert comparison.random_splits == (name in (*UCI_SHAPES, "table"))


def test_the_papers_sizes_are_those_of_its_appendix(tmp_path):
    text = chosen(read_benchmark("text8"), "paper")
    assert text["data"]["chunk"] == 250
    assert {"width": 768, "depth": 12, "heads": 12, "mlp_width": 3072, "dropout": 0.0}.items() <= text[
        "network"
    ].items()
    wanted = {"batch_size": 512, "learning_rate": 5e-4, "warmup": 5000, "clip": 0.25, "optimizer": "adamw"}
    assert wanted.items() <= text["training"].items()
    for name in ("cifar10", "imagenet32"):
        image = chosen(read_benchmark(name), "paper")
        assert {"kind": "unet", "base_channels": 256, "blocks": 32, "layers": 1}.items() <= image["network"].items()
        wanted = {"batch_size": 128, "learning_rate": 1e-4, "clip": 100.0, "optimizer": "adam"}
        assert wanted.items() <= image["training"].items()
    assert chosen(read_benchmark("cifar10"), "paper")["variation"] == {"images": ["flip-both", "rotate"]}
    assert "variation" not in chosen(read_benchmark("imagenet32"), "paper")
    for name in TABLES:
        table = chosen(read_benchmark(name), "paper")
        assert table["head"]["num_components"] == 10
        assert table["head"]["num_eval_samples"] == 100
        assert (table["network"]["depth"], table["network"]["residual"]) == (4, True)
        assert table["evaluation"]["cardinalities"] == [3, 5, 6] or table["evaluation"]["cardinalities"][:2] == [3, 5]


def test_sfarms_sizes_are_those_of_its_table_4():
    """Base channels, planes, layers, blocks, batch, epochs and components of the paper's appendix."""
    table = {
        "sfarm/mnist": (32, 32, 1, 4, 128, 300, None), "fashion-mnist": (32, 32, 1, 4, 128, 300, 1),
        "sfarm/cifar10": (256, 128, 1, 32, 32, 3000, 30), "celeba64": (256, 128, 2, 16, 16, 3000, 30),
        "imagenet64": (256, 128, 2, 16, 16, 20, 30),
    }  # fmt: skip
    for name, sizes in table.items():
        values = chosen(read_benchmark(name), "paper")
        network, training = values["network"], values["training"]
        found = (
            *(network[key] for key in ("base_channels", "in_planes", "layers", "blocks")),
            training["batch_size"],
            training["epochs"],
            values["head"].get("num_components"),
        )
        assert found == sizes, name
        assert training["learning_rate"] == 2e-4
    tables = chosen(read_benchmark("sfarm/tables"), "paper")
    assert tables["head"] == {"kind": "gaussian"}
    assert {"width": 32, "depth": 3}.items() <= tables["network"].items()
    assert (tables["training"]["batch_size"], tables["training"]["epochs"]) == (100, 2000)
    assert tables["training"]["learning_rate"] == 1e-3


@pytest.mark.parametrize(
    ("name", "data"),
    [("sfarm/mnist", "binarized_mnist"), ("sfarm/cifar10", "cifar10"), ("fashion-mnist",) * 2, ("celeba64",) * 2,
     ("imagenet64",) * 2],
)  # fmt: skip
def test_staged_networks_of_the_papers_sizes_can_be_built(name, data):
    """Without their memory: on torch's meta device."""
    values = chosen(read_benchmark(name), "paper")
    spec = ModelSpec("sfarm", SHAPES[data], LEVELS[data], values["network"], values["head"])
    with torch.device("meta"):
        head = make_head(spec)
        network = make_network(spec, head)
    assert network.num_modes == 7
    assert getattr(head, "channels", 1) == SHAPES[data][0]
    assert sum(p.numel() for p in network.parameters()) > (1e5 if SHAPES[data][0] == 1 else 1e7)


@pytest.mark.parametrize("preset", ["smoke", "cpu", "paper"])
@pytest.mark.parametrize("name", SFARM)
def test_sfarms_experiments_describe_comparisons_whose_arms_can_be_built(tmp_path, name, preset):
    benchmark = read_benchmark(f"sfarm/{name}")
    for each in benchmark.get("sets", [None]):
        values = chosen(benchmark, preset, {"data": {"name": each}})
        data = values["data"]["name"]
        comparison = make_comparison(name, values, benchmark["arms"], tmp_path)
        assert data in benchmark["table"]["paper"]
        for arm in benchmark["arms"] if preset == "smoke" else ():
            network = comparison.networks[METHODS[arm].network]
            spec = ModelSpec(arm, SHAPES[data], LEVELS.get(data), network, comparison.head, comparison.order)
            assert build(spec).num_variables == spec.num_variables


@pytest.mark.parametrize("preset", ["smoke", "cpu", "paper"])
def test_clothes_are_asked_for_what_digits_are_and_of_the_same_baselines(preset):
    clothes, digits = chosen(read_benchmark("fashion-mnist"), preset), chosen(read_benchmark("sfarm/mnist"), preset)
    assert clothes["evaluation"]["missing"] == digits["evaluation"]["missing"]
    assert clothes["baselines"] == digits["baselines"]


def test_the_options_that_a_user_can_change_are_all_settings(tmp_path):
    options = yaml.safe_load((FOLDER / "_benchmark.yaml").read_text())
    for field in fields(EvaluationSettings):
        assert field.name in options["hydra"]["help"]["template"], field.name
    assert set(FIGURE_3) <= set(METHODS)
    for arm in METHODS:
        assert arm in options["hydra"]["help"]["template"]
    for name in (*NAMES, *(f"sfarm/{name}" for name in SFARM)):
        assert name in options["hydra"]["help"]["template"]


def test_presets_are_merged_key_by_key_and_none_changes_nothing():
    under = {"training": {"steps": 5, "clip": 1.0}, "head": {"kind": "a", "size": 3}, "seeds": [0]}
    over = {"training": {"steps": 7, "clip": None}, "head": {"kind": "b"}, "seeds": [1, 2]}
    assert merged(under, over) == {"training": {"steps": 7, "clip": 1.0}, "head": {"kind": "b"}, "seeds": [1, 2]}
    assert merged(under, {"head": {"size": 4}})["head"] == {"kind": "a", "size": 4}
    assert merged(under, {"head": None, "seeds": None}) == under


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trainings": {"steps": 3}}, "unknown part of a benchmark 'trainings'.*did you mean 'training'"),
        ({"training": {"step": 3}}, "unknown key in the training settings 'step'"),
        ({"evaluation": {"row": 3}}, "unknown key in the evaluation settings 'row'"),
        ({"variation": {"images": ["turn"]}}, "unknown variation of images 'turn'"),
        ({"data": {"chunks": 3}}, "unknown key in the data 'chunks'"),
        ({"energy_warmup": -1}, "energy_warmup must be a whole number"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        make_comparison("text8", chosen(read_benchmark("text8"), "smoke", changes), ["mac"], tmp_path)


def test_an_unknown_preset_lists_those_there_are():
    with pytest.raises(ValueError, match="unknown preset 'papr'; allowed are 'smoke', 'cpu', 'paper'; did you mean"):
        chosen(read_benchmark("text8"), "papr")


def test_the_splits_of_small_tables_follow_the_seed(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "mac_policy.rows.likelihoods.presets.load_rows", lambda *a, **k: asked.append((a, k)) or load_rows(*a, **k)
    )
    comparison = make_comparison(
        "energy", chosen(read_benchmark("energy"), "smoke", {"data": {"root": str(tmp_path)}}), ["mac"], tmp_path
    )
    for seed in (0, 3):
        with pytest.raises(ValueError, match="How to get it"):
            comparison.load(seed)
    assert [options["split"] for _, options in asked] == [0, 3]


def test_a_benchmark_says_what_differs_from_those_it_extends(tmp_path):
    texts = {
        "_base": "base: {head: {kind: a, size: 1}, order: {kind: pixels}}\npresets: {cpu: {seeds: [0]}}",
        "_more": "extends: [_base]\nbase: {head: {size: 2}}",
        "mine": "extends: [_more]\nbase: {head: {kind: b}}\npresets: {cpu: {training: {clip: 1}}}",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    found = read_benchmark("mine", tmp_path)
    assert found["base"] == {"head": {"kind": "b"}, "order": {"kind": "pixels"}}
    assert found["presets"] == {"cpu": {"seeds": [0], "training": {"clip": 1}}}
    with pytest.raises(ValueError, match="unknown benchmark '_base'; allowed are 'mine'"):
        read_benchmark("_base", tmp_path)
