"""train_policy.py as a user would run it, on the teaching task."""

import dataclasses
import json
import re

import pytest
import yaml

import envs  # noqa: F401  (registers the tasks)
from mac_policy.cli.command import task_of
from mac_policy.cli.listing import shown
from mac_policy.cli.train_policy import check, plan
from mac_policy.common.labels import Ahead
from mac_policy.policies.bc import BCSettings
from mac_policy.policies.checkpoint import load_policy
from mac_policy.policies.mac_settings import MACSettings
from mac_policy.policies.registry import make_settings
from mac_policy.tasks import TASKS
from mac_policy.training.settings import TrainSettings
from tests.scripts.helpers import ROOT, composed, run_here, run_script

TINY = (
    "task=fork", "data.episodes=12", "training.steps=40", "training.batch_size=32", "training.validations=2",
    "training.accelerator=cpu",
)  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("user")
    return folder, *run_script("train_policy.py", *TINY, "bc.width=16", "mac.width=16", cwd=folder, OMP_NUM_THREADS="1")


def test_it_says_what_it_uses_what_it_made_and_what_comes_next(trained):
    folder, code, out, err = trained
    assert code == 0, err
    assert "mac-policy/fork-scripted-v0 (scripted), 12 episodes" in err
    for name in ("bc-s0", "bc-s100", "mac-s0"):
        assert load_policy(folder / "runs" / "fork" / name).settings.width == 16
        assert f"runs/fork/{name}: " in out
    assert "  python scripts/shared_autonomy.py task=fork operator_dims=1\n" in out
    assert (folder / "runs/fork/bc-s0/model.safetensors").read_bytes() != (
        folder / "runs/fork/bc-s100/model.safetensors"
    ).read_bytes()


def test_the_same_command_again_finds_all_done_and_another_seed_is_another_run(trained):
    folder = trained[0]
    options = (*TINY, "mac.width=16", "policy=mac")
    code, out, err = run_here("train_policy", *options, cwd=folder)
    assert code == 0, err
    assert "was finished already" in out
    code, out, err = run_script("train_policy.py", "-m", *options, "seed=1,2", cwd=folder)
    assert code == 0, err
    seeds = {json.loads((folder / f"runs/fork/mac-s{s}/config.json").read_text())["training"]["seed"] for s in (1, 2)}
    assert seeds == {1, 2}
    assert "was finished already" not in out


def test_other_settings_in_the_same_folder_are_refused_unless_afresh_or_named(trained):
    folder = trained[0]
    options = (*TINY, "policy=bc", "bc.width=24")
    code, _, err = run_here("train_policy", *options, cwd=folder)
    assert code == 2
    assert "settings.width was 16 and is now 24" in err
    code, out, err = run_here("train_policy", *options, "name=wide", cwd=folder)
    assert code == 0, err
    assert "runs/fork/wide-s0" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("policy=mack",),
            "error: unknown policy 'mack'; allowed are 'all', .*'bc', .*'mac', .* did you mean 'mac'",
        ),
        (("preset=slow",), "error: unknown preset 'slow'; allowed are 'few', 'full', 'intent', 'paper', 'quick'"),
        (("policy=mac", "mac.decode=modes"), "error: unknown decode 'modes'; allowed are .*did you mean 'mode'"),
        (("seed=abc",), "error: seed must be a whole number of at least 0, got 'abc'"),
        (("seed=1.5",), "error: seed must be a whole number"),
        (("train=[mack]",), "error: unknown policy in train 'mack'.*did you mean 'mac'"),
        (("policy=bc", "train=[mac]"), "error: train names mac.*choose policy=mac"),
        (("training.batch_size=0",), "error: training.batch_size must be a whole number of at least 1, got 0"),
        (("polcy=mac",), "error: unknown option 'polcy'; .* did you mean 'policy'"),
        (("steps=3",), "error: unknown option 'steps'; .* did you mean 'training.steps'"),
        (("task.name.x=3",), "error: unknown option 'task.name.x': task.name is one value"),
        (("mac.decod=mode",), "error: unknown option 'mac.decod'; .* did you mean 'mac.decode'"),
        (("mac.history=null",), "error: history must be a whole number of at least 1, got None"),
        (("resume=maybe",), "error: resume must be true or false, got 'maybe'"),
        (("runs=null",), "error: runs must be a path, got null"),
        (("name=[1]",), r"error: name must be .*, got \[1\]"),
        (("train=mac",), r"error: train must be a list such as \[a,b\], got 'mac'; write train=\[mac\]"),
        (("task.start=official",), "error: unknown option 'task.start'"),
        (("training.tensorboard=3",), "error: training.tensorboard must be true or false, got 3"),
        (("training.optimizer=adamx",), "error: unknown training.optimizer 'adamx'.*did you mean 'adam'"),
        (("name=abc",), r"error: name=abc gives the folder abc-s0 to several runs \(bc, mac\): choose one of them"),
        (("policy=mac", "training.nodes=2"), "error: training.nodes=2 waits for .*torchrun"),
        (("policy=mac", "training.batch_size=1000000000000"), "error: training.batch_size must be .* at most 1000000"),
        (("ahead={x:[0,5]}",), "error: ahead=... needs policy=mac, or another kind"),
        (("policy=mac", "ahead=3"), "error: ahead must be a mapping"),
        (("policy=mac", "ahead={x:3}"), r"error: ahead.x must be a list such as \[a,b\], got 3"),
        (("policy=mac", "ahead={x:[0]}"), r"error: ahead.x must be \[index in the observation, steps\], got \[0\]"),
        (("policy=mac", "ahead={x:[0,0]}"), "error: steps of label 'x' must be a whole number of at least 1, got 0"),
        (("policy=mac", "ahead={x:[-1,5]}"), "error: observed of label 'x' must be a whole number of at least 0"),
    ],
)
def test_a_mistake_is_one_line_that_lists_what_is_valid(tmp_path, options, message):
    code, out, err = run_here("train_policy", "task=fork", *options, cwd=tmp_path)
    assert (code, out) == (2, "")
    assert re.search(message, err), err
    assert len(err.splitlines()) == 1
    assert not any(tmp_path.iterdir())


def test_a_mistake_in_the_last_policy_shows_before_the_first_is_trained(trained):
    folder = trained[0]
    code, _, err = run_here("train_policy", *TINY, "train=[bc,mac]", "mac.order=[0,5]", "runs=new", cwd=folder)
    assert (code, not (folder / "new").exists()) == (2, True)
    assert "error: order must be a permutation of the action dims 0..1, got [0, 5]\n" in err


def test_any_data_have_labels_by_hindsight(trained):
    folder = trained[0]
    options = (*TINY, "policy=mac", "mac.width=16", "name=mac-ahead")
    code, _, err = run_here("train_policy", *options, "ahead={place:[0,5],side:[1,9]}", cwd=folder)
    assert code == 0, err
    assert load_policy(folder / "runs/fork/mac-ahead-s0").labels == (Ahead("place", 0, 5), Ahead("side", 1, 9))
    code, _, err = run_here("train_policy", *options, "ahead={place:[0,6],side:[1,9]}", cwd=folder)
    assert code == 2
    assert "labels" in err
    code, _, err = run_here("train_policy", *options, "ahead={place:[99,5]}", "name=far", cwd=folder)
    assert code == 2
    assert re.search(r"observed of label 'place' must be in \[0, \d+\], got 99", err)


@pytest.mark.parametrize("kind", ["bc", "mac", "mac_paper", "mac_path", "ibc"])
def test_the_node_of_a_policy_has_every_setting_at_its_default(kind):
    config = composed("train_policy", f"policy={kind}", "preset=full", "training.steps=7")
    written = config[kind]
    assert set(written) == {field.name for field in dataclasses.fields(make_settings(kind))}
    changed = yaml.safe_load((ROOT / "configs" / "preset" / "full.yaml").read_text()).get(kind, {})
    quick = yaml.safe_load((ROOT / "configs" / "preset" / "quick.yaml").read_text()).get(kind, {})
    assert make_settings(kind, written) == make_settings(kind, quick | changed)
    assert config["train"] == [kind]


def plain(values):
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def test_training_has_every_setting_and_the_presets_those_that_differ():
    training = composed("train_policy")["training"]
    assert TrainSettings(**training) == TrainSettings(batch_size=512)
    paper = composed("train_policy", "preset=paper")["training"]
    assert set(paper) == {field.name for field in dataclasses.fields(TrainSettings)}
    assert (paper["epochs"], paper["batch_size"], paper["optimizer"]) == (300, 4096, "adam")


@pytest.mark.parametrize(
    ("preset", "representation"),
    [("quick", "auto"), ("few", "auto"), ("full", "auto")] + [(p, "relative") for p in ("relative", "intent", "paper")],
)
def test_a_preset_has_one_representation_for_all_kinds(preset, representation):
    for kind in ("bc", "mac", "mac_path", "mac_paper", "ibc"):
        config = composed("train_policy", f"preset={preset}", f"policy={kind}")
        assert config[kind]["representation"] == representation


@pytest.mark.parametrize("name", ["mac", "bc", "training", "minari", "kitchen-mixed"])
def test_settings_are_listed_with_defaults_and_explanations(tmp_path, name):
    code, out, _ = run_here("train_policy", "--settings", name, cwd=tmp_path)
    assert code == 0
    config = composed("train_policy", *(["task=" + name] if name in TASKS else []))
    defaults = {"training": TrainSettings, "mac": MACSettings, "bc": BCSettings}
    values = config["task"] if name in TASKS else plain(dataclasses.asdict(defaults[name]()))  # which presets change
    for key, value in values.items():
        assert f"{key}={shown(value)}" in out


def test_the_explanations_come_from_the_docstrings(tmp_path):
    out = run_here("train_policy", "--settings", "training", cwd=tmp_path)[1]
    assert re.search(r"^ema=0.999\n    decay of the averaged weights", out, re.MULTILINE)
    code, _, err = run_here("train_policy", "--settings", "mca", cwd=tmp_path)
    assert code == 2
    assert "unknown name of settings 'mca'; allowed are 'training', 'mac', " in err


OWN = """
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
from envs.fork.task import ForkTask
from mac_policy.operators.registry import OperatorKind
from mac_policy.operators.simple import Zeros
from mac_policy.policies.bc import BC, BCSettings

@dataclass(frozen=True)
class MySettings(BCSettings):
    gain: float = 2.0

class MyPolicy(BC):
    kind = "mine"
    settings_class = MySettings

@dataclass(frozen=True)
class Tremor(Zeros):
    name: ClassVar[str] = "tremor"
    size: float = 0.1
    def make(self, dims, batch, resources):
        print("a tremor of", self.size)
        return super().make(dims, batch, resources)

@dataclass(frozen=True)
class Reach(ForkTask):
    name: str = "reach"
    far: bool = False

REACH = Reach()
"""


def test_kinds_of_a_users_own_are_named_on_the_command_line(tmp_path):
    (tmp_path / "my_lab.py").write_text(OWN)
    options = (*TINY[1:], "task=my_lab:REACH", "task.far=true", "policy=my_lab:MyPolicy", "mine.width=8", "mine.gain=3")
    code, out, err = run_script("train_policy.py", *options, cwd=tmp_path)
    assert code == 0, err
    assert "runs/reach/mine-s0: mine, 40 steps" in out
    settings = json.loads((tmp_path / "runs/reach/mine-s0/config.json").read_text())["settings"]
    assert (settings["width"], settings["gain"]) == (8, 3)
    code, _, err = run_script("train_policy.py", *options, "mine.gian=3", cwd=tmp_path)
    assert code == 2
    assert "unknown option 'mine.gian'; " in err
    assert "did you mean 'mine.gain'" in err
    options = (
        "task=fork",
        "operator=my_lab:Tremor",
        "operator.size=0.3",
        "arms=[zeros]",
        "operator_dims=1",
        "video=false",
    )
    code, out, err = run_script("shared_autonomy.py", *options, "episodes=2", "workers=1", cwd=tmp_path)
    assert code == 0, err
    assert "a tremor of 0.3" in out


def test_a_kind_that_cannot_be_imported_is_one_line(tmp_path):
    for option, what in (("policy=nowhere:P", "policy"), ("task=nowhere:T", "task")):
        code, _, err = run_here("train_policy", option, cwd=tmp_path)
        assert code == 2
        assert err.startswith(f"error: the {what} 'nowhere:")
        assert len(err.splitlines()) == 1


def test_help_explains_the_options(tmp_path):
    code, out, _ = run_here("train_policy", "--help", cwd=tmp_path)
    assert code == 0
    for word in ("policy", "preset", "resume", "training.*", "task=kitchen-mixed"):
        assert word in out


def planned(*options):
    config = composed("train_policy", *options)
    task = task_of(config)
    chosen, _ = check(config, task)
    return [(run.kind, run.run, chosen.seed + run.seed, run.labels) for run in plan(chosen, task.experiment.runs)]


def test_a_task_says_which_runs_its_experiment_needs():
    assert planned("task=kitchen-mixed", "seed=3") == [
        ("bc", "bc", 3, False), ("bc", "bc", 103, False), ("mac", "mac", 3, True)
    ]  # fmt: skip
    assert planned("task=kitchen-intent", "seed=3") == [
        ("mac", "mac", 3, True), ("mac", "mac-unaware", 3, False), ("bc", "bc", 103, False), ("bc", "bc-told", 3, True)
    ]  # fmt: skip


def test_one_run_of_an_experiment_has_the_labels_that_the_experiment_says():
    assert planned("task=kitchen-intent", "policy=mac") == [("mac", "mac", 0, True)]
    assert planned("task=kitchen-intent", "policy=mac", "name=mac-unaware") == [("mac", "mac-unaware", 0, False)]
    assert planned("task=kitchen-intent", "policy=bc", "seed=7") == [("bc", "bc", 7, False)]
    assert planned("task=kitchen-intent", "policy=bc", "name=wide", "labels=false") == [("bc", "wide", 0, False)]
    with pytest.raises(ValueError, match="labels=true, but task=kitchen-mixed has no labels"):
        planned("task=kitchen-mixed", "labels=true")
