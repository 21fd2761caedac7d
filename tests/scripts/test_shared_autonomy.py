"""shared_autonomy.py as a user would run it, on the teaching task with untrained policies."""

import json
import shutil
from types import SimpleNamespace

import imageio.v3 as iio
import pytest

from envs.kitchen import rendering as kitchen_rendering
from envs.kitchen.task import KitchenTask
from mac_policy.evaluation.comparison import ComparisonSettings
from mac_policy.evaluation.measurement import film
from mac_policy.tasks import RendererMissing
from tests.evaluation.fork_runs import save_all
from tests.scripts.helpers import run_here, run_script

QUICK = ("task=fork", "operator_dims=1", "episodes=6", "envs=3", "workers=1", "video=false")
ARMS = ["operator+bc", "operator+mac", "operator+mac-blind", "mac", "bc", "zeros", "operator"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("user")
    save_all(folder / "runs", seeds=(0, 1))
    return folder


def run(folder, *options):
    return run_here("shared_autonomy", *QUICK, *options, cwd=folder)


@pytest.fixture(scope="module")
def first(runs):
    options = (*QUICK, "operator=expert", "training_seeds=[0,1]", "video=auto")
    code, out, err = run_script("shared_autonomy.py", *options, cwd=runs, OMP_NUM_THREADS="1")
    assert code == 0, err
    path = runs / out.splitlines()[-1]
    return out, path, json.loads(path.read_text())


def numbers(record):
    """What a clock does not decide."""
    arms = {name: {k: v for k, v in arm.items() if k != "latency_ms"} for name, arm in record["arms"].items()}
    return arms, record["paired"], record["best_alone"]


def test_results_say_what_was_measured_and_how(first):
    record = first[2]
    assert list(record["arms"]) == ARMS
    mac = record["arms"]["operator+mac"]
    assert mac["episodes"] == 12
    assert mac["training_seeds"] == [0, 1]
    assert mac["ci95"][0] <= mac["reward_mean"] <= mac["ci95"][1]
    assert list(mac["per_task"]) == ["goal"]
    assert mac["latency_ms"]["p50"] <= mac["latency_ms"]["p95"] <= mac["latency_ms"]["p99"]
    assert record["arms"]["zeros"]["training_seeds"] == []
    assert list(record["paired"]) == [f"operator+mac - {arm}" for arm in ARMS if arm != "operator+mac"]
    assert record["best_alone"] in ("mac", "bc")
    assert record["dataset"]["source"] == "scripted"
    assert record["operator"]["kind"] == "expert"
    assert record["operator_dims"] == "[0]"
    for key in ("schema", "command", "created", "seed", "versions", "machine"):
        assert record[key] is not None


def test_a_person_reads_the_operator_the_data_and_the_table(first):
    out, path, _ = first
    for words in (
        "Operator: the scripted expert with an intent of its own; it holds dims [0].",
        "scripted demonstrations, NOT human",
        "operator+mac-blind",
        "operator+mac - operator+bc",
    ):
        assert words in out
    assert path.parts[-3:-1] == ("fork", path.parent.name)
    assert path.parent.name.startswith("expert-0-")
    assert (path.parent / "table.md").read_text().count("| operator+mac |") == 2
    for name in ("reward.png", "tasks.png"):
        assert iio.imread(path.parent / name).std() > 1
    assert iio.imread(path.parent / "video.mp4").std() > 1


def test_the_same_command_again_shows_the_same_and_rolls_out_nothing(runs, first):
    _, path, record = first
    before = {name: (path.parent / name).read_bytes() for name in ("episodes.jsonl", "video.mp4")}
    code, out, err = run(runs, "operator=expert", "training_seeds=[0,1]", "video=auto", "workers=2")
    assert code == 0, err
    assert runs / out.splitlines()[-1] == path
    assert numbers(json.loads(path.read_text())) == numbers(record)
    assert {name: (path.parent / name).read_bytes() for name in before} == before
    assert "episodes:" not in err  # no progress: nothing to do


def test_a_killed_run_goes_on_to_the_same_numbers(runs, first, tmp_path):
    _, path, record = first
    lines = (path.parent / "episodes.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "episodes.jsonl").write_text("".join(lines[:20]) + lines[20][:70])
    code, _, err = run(runs, "operator=expert", "training_seeds=[0,1]", f"out={tmp_path}")
    assert code == 0, err
    assert numbers(json.loads((tmp_path / "results.json").read_text())) == numbers(record)


def test_several_subsets_make_one_table(runs):
    code, out, err = run(
        runs, "operator_dims=[[1],random-1]", "arms=[operator+mac,mac]", "temperature=0.5", "out=several"
    )
    assert code == 0, err
    assert out.splitlines()[-1] == "several/results.json"
    assert "do not count" not in out  # what is stored of one subset is not outdated for the other
    record = json.loads((runs / "several/results.json").read_text())
    assert list(record["by_operator_dims"]) == ["[1]", "random-1"]
    assert record["decoding"] == {"decode": "sample", "decode_alone": None, "temperature": 0.5}
    each = [json.loads((runs / f"several/{name}/results.json").read_text()) for name in ("1", "random-1")]
    assert each[0]["arms"]["mac"]["rewards"] == each[1]["arms"]["mac"]["rewards"]
    stored = (runs / "several/episodes.jsonl").read_text().splitlines()
    assert len(stored) == 18  # mac alone was rolled out once


def test_retrained_policies_are_noticed(runs, tmp_path):
    options = ("arms=[operator+mac,zeros]", f"out={tmp_path}", f"runs={tmp_path}/runs")
    save_all(tmp_path / "runs")
    assert run(runs, *options)[0] == 0
    shutil.copytree(tmp_path / "runs/fork/bc-s100", tmp_path / "runs/fork/bc-s0", dirs_exist_ok=True)
    code, out, err = run(runs, *options)
    assert code == 0, err
    assert "6 stored episodes of operator+mac are of other weights" in out


def test_when_nothing_is_trained_it_says_what_to_type(runs):
    code, _, err = run(runs, "runs=nowhere")
    assert code == 2
    assert err.splitlines() == [
        "error: nothing is trained in nowhere/fork. Train first:",
        "  python scripts/train_policy.py task=fork seed=0 runs=nowhere",
    ]
    code, _, err = run(runs, "training_seeds=[0,1,2,3]")
    assert code == 2
    assert "bc-s2, bc-s3, bc-s102, mac-s2, bc-s103, mac-s3 are not trained in runs/fork" in err
    assert err.splitlines()[-1] == "  python scripts/train_policy.py -m task=fork seed=2,3"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("operator_dims=3", r"operator_dims = 3 cannot be used"),
        ("operator_dims=[0,0]", "a dim is repeated"),
        ("operator_dims=random-9", "'random-9' cannot be used"),
        ("episodes=0", "episodes must be a whole number of at least 1, got 0"),
        ("training_seeds=3", "training_seeds must be a list such as [a,b], got 3; write training_seeds=[3]"),
        ("arms=[operator+mca]", "did you mean 'mac'"),
        ("video=yes", "video must be true, false or auto"),
        ("temperature=-1", "temperature must be at least 0 and finite, got -1"),
        ("decode=modal", "unknown decode 'modal'"),
        ("max_change=0", "max_change must be a finite number above 0"),
        ("task=minari", "put an ActionFilter around yours"),
        ("operator=sb3", "operator=sb3 needs operator.path"),
        ("operator=nosy", "unknown operator 'nosy'; allowed are 'bc', "),
        ("operator.p=2", "unknown option 'operator.p'; allowed are 'operator.kind'"),
        ("episode=2", "did you mean 'episodes'"),
        ("envs=null", "envs must be a whole number of at least 1, got None"),
        ("mac=[a]", "mac must be a text, got ['a']"),
        ("decode=sample,best", "decode=sample,best is a sweep: add -m "),
        ("operator=noisy operator.p=2", "operator.p must be in [0, 1], got 2"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_done(runs, option, message):
    code, out, err = run_here("shared_autonomy", *QUICK, *option.split(), cwd=runs)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert message in err
    assert len(err.splitlines()) == 1


def test_a_wrong_option_is_one_line_and_makes_no_folder(runs):
    code, out, err = run(runs, "operator_dims=[0,0]", "out=wrong")
    assert (code, out) == (2, "")
    assert err.startswith("error: operator_dims = [0, 0] cannot be used: a dim is repeated. Allowed for 2 action dims")
    assert len(err.splitlines()) == 1
    assert not (runs / "wrong").exists()


def test_without_opengl_it_goes_on_and_names_the_package(tmp_path, monkeypatch):
    monkeypatch.setattr(kitchen_rendering, "first_working_backend", lambda: None)
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    record = SimpleNamespace(key="k", seed=0, actions=((0.0,) * 9,), masks=("0" * 9,))
    said = []
    auto, always = (
        SimpleNamespace(task=KitchenTask("kitchen-complete"), settings=ComparisonSettings(video=video, workers=1))
        for video in ("auto", True)
    )
    assert film(auto, {"mac": {0: [record]}}, tmp_path, None, said.append) is None
    assert said[-1].startswith("no video: rendering needs OpenGL")
    with pytest.raises(RendererMissing, match="libosmesa6"):
        film(always, {"mac": {0: [record]}}, tmp_path, None, said.append)


def test_help_names_every_option(runs):
    code, out, _ = run_here("shared_autonomy", "--help", cwd=runs)
    assert code == 0
    for option in (
        "task.start", "operator", "operator_dims", "arms", "training_seeds", "episodes", "seed", "decode",
        "temperature", "max_change", "mac, bc", "runs", "workers", "envs", "video", "out",
    ):  # fmt: skip
        assert f"\n{option} " in out, option
