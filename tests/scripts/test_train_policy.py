"""train_policy.py as a user would run it, on the teaching task."""

import dataclasses
import json
import re

import pytest
import yaml

from mac_policy.policies.checkpoint import load_policy
from mac_policy.policies.registry import make_settings
from mac_policy.training.settings import TrainSettings
from tests.scripts.helpers import ROOT, run_script

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
    code, out, err = run_script("train_policy.py", *options, cwd=folder)
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
    code, _, err = run_script("train_policy.py", *options, cwd=folder)
    assert code == 2
    assert "settings.width was 16 and is now 24" in err
    code, out, err = run_script("train_policy.py", *options, "name=wide", cwd=folder)
    assert code == 0, err
    assert "runs/fork/wide-s0" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("policy=mack",),
            "error: unknown policy 'mack'; allowed are 'all', 'bc', 'ibc', 'mac', .* did you mean 'mac'",
        ),
        (("preset=slow",), "error: unknown preset 'slow'; allowed are 'few', 'full', 'paper', 'quick'"),
        (("policy=mac", "mac.decode=modes"), "error: unknown decode 'modes'; allowed are .*did you mean 'mode'"),
        (("seed=abc",), "error: seed must be a whole number of at least 0, got 'abc'"),
        (("seed=1.5",), "error: seed must be a whole number"),
        (("train=[mack]",), "error: unknown policy in train 'mack'.*did you mean 'mac'"),
        (("policy=bc", "train=[mac]"), "error: train names mac.*choose policy=mac"),
        (("training.batch_size=0",), "error: batch_size must be a whole number of at least 1, got 0"),
        (("training.optimizer=adamx",), "error: unknown optimizer 'adamx'.*did you mean 'adam'"),
    ],
)
def test_a_mistake_is_one_line_that_lists_what_is_valid(tmp_path, options, message):
    code, out, err = run_script("train_policy.py", "task=fork", *options, cwd=tmp_path)
    assert code != 0
    assert re.search(message, out + err, re.DOTALL), err
    assert "Traceback" not in err
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["bc", "mac", "mac_paper", "mac_path", "ibc"])
def test_a_policys_config_has_every_setting_at_its_default(kind):
    written = yaml.safe_load((ROOT / "configs" / "policy" / f"{kind}.yaml").read_text())[kind]
    plain = json.loads(json.dumps(dataclasses.asdict(make_settings(kind))))
    if kind == "mac_paper":  # it has no query network
        plain = {key: value for key, value in plain.items() if not key.startswith("query_")}
    if kind == "mac_path":  # these correct a training that it does not do
        plain = {key: value for key, value in plain.items() if key not in ("weights", "reweighting")}
    assert written == plain


def test_the_quick_preset_has_every_setting_of_training():
    written = yaml.safe_load((ROOT / "configs" / "preset" / "quick.yaml").read_text())["training"]
    assert set(written) == {field.name for field in dataclasses.fields(TrainSettings)}


def test_help_explains_the_options(tmp_path):
    code, out, _ = run_script("train_policy.py", "--help", cwd=tmp_path)
    assert code == 0
    for word in ("policy", "preset", "resume", "training.*", "task=kitchen-mixed"):
        assert word in out
