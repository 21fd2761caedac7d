"""A policy of a user's own, from a folder outside the package: made by name, trained, saved, registered, loaded."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

from mac_policy import POLICIES, load_policy, make_policy, register_policy, train
from mac_policy.common.files import CheckpointError
from mac_policy.policies.bc import BC
from tests.training.helpers import demonstrations, quickly, small

SPACES = small("bc").spaces

SOURCE = """
from dataclasses import dataclass
from torch import nn
from mac_policy import Policy, PolicySettings

@dataclass(frozen=True)
class LinearSettings(PolicySettings):
    bias: bool = True

class Linear(Policy):
    kind = "linear"
    settings_class = LinearSettings

    def __init__(self, spaces, settings):
        super().__init__(spaces, settings)
        self.network = nn.Linear(settings.history * self.observation_dim, len(self.variables), bias=settings.bias)

    def loss(self, context, actions, inside, draws):
        return (inside * (self.network(context) - actions) ** 2).sum(1).mean()

    def plan(self, context, values, given, request):
        return self.network(context)
"""


@pytest.fixture
def policy_lab(tmp_path, monkeypatch):
    (tmp_path / "policy_lab").mkdir()
    (tmp_path / "policy_lab" / "policies.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in ("linear", "policy_lab.policies:Linear"):
        POLICIES._kinds.pop(name, None)
    for name in [name for name in sys.modules if name.split(".")[0] == "policy_lab"]:
        del sys.modules[name]


def fresh(code, *arguments):
    """What a new process prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)], capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def test_it_is_made_trained_saved_and_loaded_by_who_registers_it(policy_lab):
    policy = make_policy("policy_lab.policies:Linear", SPACES, {"bias": False})
    assert policy.kind == "linear"
    before = policy.network.weight.detach().clone()
    trained = train(policy, demonstrations(4), quickly(steps=6), policy_lab / "run", quiet=True)
    assert (trained.policy.network.weight != before).any()
    assert load_policy(trained.folder).settings.bias is False  # its kind is registered in this process
    seen = np.zeros(SPACES.observation.shape, np.float32)
    expected = trained.policy.act(seen, [0.25, 0.0], [True, False]).tolist()

    refused = fresh("import sys, mac_policy; mac_policy.load_policy(sys.argv[1])", trained.folder)
    assert "CheckpointError" in refused
    assert "unknown policy 'linear'; registered are mac, " in refused
    assert "call mac_policy.register_policy(YourPolicy)" in refused

    loaded = fresh(
        """
        import sys
        sys.path.insert(0, sys.argv[2])
        from mac_policy import load_policy, register_policy
        from policy_lab.policies import Linear
        register_policy(Linear)
        print(load_policy(sys.argv[1]).act([0.0] * int(sys.argv[3]), [0.25, 0.0], [True, False]).tolist())
        """,
        trained.folder,
        policy_lab,
        len(seen),
    )
    assert loaded.strip() == str(expected)


def test_loading_never_imports_what_a_file_names(policy_lab):
    folder = train(
        make_policy("policy_lab.policies:Linear", SPACES), demonstrations(4), quickly(steps=2), policy_lab / "run",
        quiet=True,
    ).folder  # fmt: skip
    config = (folder / "config.json").read_text()
    (folder / "config.json").write_text(config.replace('"policy": "linear"', '"policy": "json.tool:main"'))
    with pytest.raises(CheckpointError, match=r"unknown policy 'json\.tool:main'"):
        load_policy(folder)
    assert "json.tool" not in sys.modules


def test_what_is_no_policy_is_refused(policy_lab):
    with pytest.raises(ValueError, match=r"must be a subclass of mac_policy\.Policy, got <class 'dict'>"):
        register_policy(dict)
    with pytest.raises(ValueError, match="Nameless must define the class attribute 'kind'"):
        register_policy(type("Nameless", (BC.__base__,), {}))
    with pytest.raises(ValueError, match="policy 'bc' is registered already"):
        register_policy(type("Other", (BC,), {}))
    with pytest.raises(ValueError, match=r"unknown key in the linear settings 'bais'.*did you mean 'bias'"):
        make_policy("policy_lab.policies:Linear", SPACES, {"bais": True})
