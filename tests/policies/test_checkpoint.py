"""A policy folder that is not what it should be is refused by name, and a failed write loses nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium import spaces
from safetensors.torch import load_file, save_file

from mac_policy.common import files as atomic
from mac_policy.common.files import CheckpointError
from mac_policy.common.provenance import versions
from mac_policy.policies.checkpoint import load_policy, save_policy
from mac_policy.policies.registry import make_policy
from mac_policy.policies.spaces import Spaces
from tests.policies.conftest import OBSERVATION, SPACES, make


@pytest.fixture
def folder(tmp_path):
    return save_policy(make("mac"), tmp_path / "policy", {"name": "fork", "source": "scripted", "sha256": "a" * 64})


def edit(folder, change):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))


def test_best_weights_come_with_what_was_fitted_at_the_end(tmp_path):
    last, best = make("mac", labelled=True), make("mac", labelled=True, seed=3)
    last.rules[0].change.fill_(0.37)
    last.plan_margin.fill_(0.08)
    folder = save_policy(last, tmp_path / "mac-s0")
    atomic.write_tensors(folder / "best.safetensors", best.state_dict())
    found = load_policy(folder, weights="best")
    assert float(found.rules[0].change) == pytest.approx(0.37)
    assert float(found.plan_margin) == pytest.approx(0.08)
    pairs = zip(found.model.network.parameters(), best.model.network.parameters(), strict=True)
    assert all(torch.equal(mine, theirs) for mine, theirs in pairs)


def test_the_config_says_what_the_policy_is(folder):
    config = json.loads((folder / "config.json").read_text())
    assert config["schema"] == 1
    assert config["policy"] == "mac"
    assert config["dataset"] == {"name": "fork", "source": "scripted", "sha256": "a" * 64}
    assert config["settings"]["components"] == 4
    assert config["spaces"]["observation"]["low"] == [None] * OBSERVATION
    assert config["versions"] == versions()
    assert {"python", "torch", "numpy", "safetensors", "mac_policy"} <= set(config["versions"])


@pytest.mark.parametrize("key", ["schema", "policy", "settings", "spaces", "dataset", "versions", "training"])
def test_a_missing_key_is_named(folder, key):
    edit(folder, lambda config: config.pop(key))
    with pytest.raises(CheckpointError, match=f"lacks the key '{key}'"):
        load_policy(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(extra=1), "unknown key in the record 'extra'"),
        (lambda c: c.update(schema=99), "schema 99"),
        (lambda c: c.update(policy="mack"), "unknown policy 'mack'.*did you mean 'mac'"),
        (lambda c: c["settings"].update(widht=3), "'widht'.*did you mean 'width'"),
        (lambda c: c["settings"].update(width="wide"), "width"),
        (lambda c: c["spaces"].pop("action"), "spaces lacks the key 'action'"),
        (lambda c: c["settings"].update(width=24), "has shape .* the config asks for"),
    ],
)
def test_a_wrong_config_is_refused(folder, change, message):
    edit(folder, change)
    with pytest.raises(CheckpointError, match=message):
        load_policy(folder)


def test_missing_and_unknown_and_reshaped_tensors_are_named(folder):
    path, name = folder / "model.safetensors", "model.network.output.bias"
    whole = load_file(path)
    for tensors, message in (
        ({k: v for k, v in whole.items() if k != name}, f"lacks the tensor '{name}'"),
        (whole | {"extra": torch.zeros(1)}, "a tensor that its config.json does not ask for: 'extra'"),
        (whole | {name: torch.zeros(5)}, rf"'{name}' has shape \(5,\)"),
        (whole | {name: torch.full_like(whole[name], torch.nan)}, f"'{name}' holds NaN"),
    ):
        save_file(tensors, path)
        with pytest.raises(CheckpointError, match=message):
            load_policy(folder)


def test_every_truncation_is_refused(folder):
    path = folder / "model.safetensors"
    data = path.read_bytes()
    for length in (0, 5, 100, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(CheckpointError, match=r"model\.safetensors is truncated or damaged"):
            load_policy(folder)
    (folder / "config.json").write_text('{"schema": 1')
    with pytest.raises(CheckpointError, match=r"config\.json is not JSON"):
        load_policy(folder)


def test_a_folder_that_is_none_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match=r"not a policy folder: it holds no config\.json"):
        load_policy(tmp_path)


def test_other_spaces_are_refused(folder):
    def box(n, high=1.0):
        return spaces.Box(-1.0, high, (n,), np.float32)

    load_policy(folder, spaces=SPACES)
    with pytest.raises(ValueError, match=r"observations of shape \(4,\), but the environment gives \(5,\)"):
        load_policy(folder, spaces=Spaces(box(5), SPACES.action))
    with pytest.raises(ValueError, match=r"actions of shape \(3,\), but the environment takes \(2,\)"):
        load_policy(folder, spaces=Spaces(SPACES.observation, box(2)))
    with pytest.raises(ValueError, match="action bounds"):
        load_policy(folder, spaces=Spaces(SPACES.observation, box(3, 7.0)))


def test_spaces_a_policy_cannot_have_are_refused():
    flat = spaces.Box(-1, 1, (3,))
    with pytest.raises(ValueError, match="observation space must be a Box with one axis"):
        Spaces.of(spaces.Discrete(3), flat)
    with pytest.raises(ValueError, match="must be bounded"):
        Spaces.of(flat, spaces.Box(-np.inf, 1, (3,)))
    with pytest.raises(ValueError, match=r"valid|allowed"):
        make_policy("bcc", Spaces.of(flat, flat))


def test_nested_settings_are_the_same_after_loading(tmp_path):
    policy = make("mac", subsets=((0,), (1, 2)))
    assert load_policy(save_policy(policy, tmp_path)).settings == policy.settings


def test_decoding_can_be_changed_when_loading(folder):
    assert load_policy(folder, settings={"decode": "sample", "temperature": 0.5}).settings.temperature == 0.5
    with pytest.raises(ValueError, match="'decode'"):
        load_policy(folder, settings={"decod": "sample"})


def test_it_loads_without_hydra_and_without_the_kitchen(folder):
    code = (
        f"import sys; from mac_policy import load_policy; load_policy({str(folder)!r}).act([0.0] * {OBSERVATION});"
        "sys.exit(str([m for m in ('hydra', 'mujoco', 'envs', 'minari') if m in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == "[]"


def test_a_full_disk_keeps_the_last_checkpoint(tmp_path):
    """A limit on the size of files stands for the full disk: the write fails half way."""
    policy, other = make("bc"), make("bc", seed=1)
    save_policy(policy, tmp_path)
    code = f"""
import resource, signal, sys
sys.path.insert(0, {str(Path.cwd())!r})
from tests.policies.conftest import make
from mac_policy.policies.checkpoint import save_policy
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
policy = make("bc", seed=1)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
try:
    save_policy(policy, {str(tmp_path)!r})
except OSError as error:
    print("refused", error.errno)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "refused" in done.stdout, done.stderr
    kept = load_policy(tmp_path).state_dict()
    assert all(torch.equal(kept[name], value) for name, value in policy.state_dict().items())
    assert any(not torch.equal(kept[name], value) for name, value in other.state_dict().items())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["config.json", "model.safetensors"]


def test_a_write_that_is_cut_short_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    atomic.write_text(path, "old")

    def fail(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        atomic.write_text(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "model.network.output.bias",
            lambda x: x.long(),
            r"has the type torch\.int64, the config asks for torch\.float32",
        ),
        ("model.network.output.bias", lambda x: x > 0, r"has the type torch\.bool"),
        ("model.network.output.bias", lambda x: x.to(torch.complex64), r"has the type torch\.complex64"),
        ("model.network.output.bias", lambda x: x + 1e30, r"holds a parameter of a size above 1e\+09"),
        ("variables.std", lambda x: -x, r"variables\.std must be in .*, got -"),
        ("normalizer.observation_std", lambda x: 0 * x, r"normalizer\.observation_std must be in .*, got 0"),
        ("normalizer.observation_low", lambda x: x + 1e6, r"normalizer\.observation_low must not be above"),
        ("variables.low", lambda x: x + 1e6, r"variables\._low must not be above|variables.low"),
        ("variables.high", lambda x: x + 1, r"variables\.high are not the bounds of the action space"),
    ],
)
def test_numbers_that_no_policy_has_are_refused(folder, name, change, message):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    save_file(tensors | {name: change(tensors[name])}, path)
    with pytest.raises(CheckpointError, match=message):
        load_policy(folder)


def test_weights_in_another_precision_are_read(folder):
    path = folder / "model.safetensors"
    save_file({name: tensor.double() for name, tensor in load_file(path).items()}, path)
    assert load_policy(folder).device.type == "cpu"


@pytest.mark.parametrize("key", ["dataset", "training", "settings", "versions", "spaces"])
def test_what_is_no_mapping_is_refused(folder, key):
    edit(folder, lambda config: config.update({key: [1]}))
    with pytest.raises(CheckpointError, match=f"config.json: (the )?{key} must be"):
        load_policy(folder)


def test_bounds_out_of_order_are_refused(folder):
    edit(folder, lambda config: config["spaces"]["action"].update(low=[5.0, 5.0, 5.0]))
    with pytest.raises(CheckpointError, match="low must not be above high"):
        load_policy(folder)
