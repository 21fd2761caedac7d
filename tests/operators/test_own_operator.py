"""An operator of a user's own, from a folder outside the package: made by name, rolled out, sent to workers."""

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest

from mac_policy.evaluation.arms import parse_arm
from mac_policy.evaluation.episode_store import EpisodeStore
from mac_policy.evaluation.rollout import roll_out
from mac_policy.evaluation.teams import OperatorChoice, Team
from mac_policy.operators.dims import OperatorDims
from mac_policy.operators.registry import OPERATORS, OperatorKind, make_kind, make_operator, register_operator
from tests.evaluation.fork_runs import rollout

SOURCE = """
from dataclasses import dataclass
import numpy as np
from mac_policy import OperatorKind
from mac_policy.operators.operator import HoldingOperator, random_stream

class TremorOperator(HoldingOperator):
    def __init__(self, dims, batch, size):
        super().__init__(dims, batch)
        self.size = size

    def values(self, observations):
        steps = zip(self._seeds, self._steps)
        draws = [random_stream(f"tremor {step}", seed).uniform(-1, 1, self.action_dim) for seed, step in steps]
        return self.size * np.array(draws)

@dataclass(frozen=True)
class Tremor(OperatorKind):
    name = "tremor"
    size: float = 0.1

    def make(self, dims, batch, resources):
        return TremorOperator(dims, batch, self.size)

    def describe(self):
        return f"a tremor of {self.size:g}"
"""


@pytest.fixture
def operator_lab(tmp_path, monkeypatch):
    (tmp_path / "operator_lab").mkdir()
    (tmp_path / "operator_lab" / "operators.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in ("tremor", "operator_lab.operators:Tremor"):
        OPERATORS._kinds.pop(name, None)
    for name in [name for name in sys.modules if name.split(".")[0] == "operator_lab"]:
        del sys.modules[name]


def test_it_is_made_by_name_and_can_be_spoiled(operator_lab):
    dims = OperatorDims.parse(2, 3)
    operator = make_operator("operator_lab.operators:Tremor", dims, size=0.5)
    operator.reset(seeds=4)
    values, mask = operator([0.0])
    assert mask.tolist() == [True, True, False]
    assert 0.05 < np.abs(values).max() <= 0.5
    assert "tremor" in OPERATORS
    spoiled = make_operator("laggy", dims, inner="operator_lab.operators:Tremor", p=1.0)
    spoiled.reset(seeds=4)
    np.testing.assert_array_equal(spoiled([0.0]).values, spoiled([0.0]).values)
    assert make_kind("laggy", {"inner": "tremor"}).describe().startswith("a tremor of 0.1, at each step")
    with pytest.raises(ValueError, match=r"unknown key in the tremor operator 'sise'.*did you mean 'size'"):
        make_kind("tremor", {"sise": 1})


def test_it_is_rolled_out_in_this_process_and_in_workers(operator_lab):
    choice = OperatorChoice(make_kind("operator_lab.operators:Tremor", {"size": 0.2}), OperatorDims.parse(1, 2))
    team = Team(parse_arm("zeros").name, None, None, choice)
    assert choice.identity()["size"] == 0.2
    assert len(choice.identity()["code"]) == 64  # what it commands depends on its own code
    json.dumps(choice.identity())
    found = [
        roll_out(rollout(4, 2), [team], EpisodeStore(operator_lab / f"store{workers}"), workers=workers)["zeros"][None]
        for workers in (1, 2)
    ]
    assert [r.reward for r in found[0]] == [r.reward for r in found[1]]
    assert found[0][0].actions == found[1][0].actions


@pytest.mark.parametrize("settings", [{"kind": "zeros"}, {"kind": "noisy", "inner": "zeros", "p": 0.5}], ids=str)
def test_kinds_are_plain_data(settings):
    kind = make_kind(settings["kind"], {k: v for k, v in settings.items() if k != "kind"})
    again = pickle.loads(pickle.dumps(kind))
    assert (again, hash(again)) == (kind, hash(kind))
    assert again.identity() == kind.identity() == json.loads(json.dumps(kind.identity()))
    assert kind != make_kind("laggy", {"inner": "zeros", "p": 0.5})


def test_what_is_no_kind_of_operator_is_refused(operator_lab):
    with pytest.raises(ValueError, match=r"must be a subclass of mac_policy\.OperatorKind, got <class 'int'>"):
        register_operator(int)
    with pytest.raises(ValueError, match="Nameless must define the class attribute 'name'"):
        register_operator(type("Nameless", (OperatorKind,), {}))
    with pytest.raises(ValueError, match="operator 'zeros' is registered already"):
        register_operator(type("Other", (OPERATORS["zeros"],), {}))
    with pytest.raises(ValueError, match="cannot be imported"):
        make_operator("operator_lab.operators:Tremble", OperatorDims.parse(1, 2))


def test_operators_need_no_evaluation_and_no_stable_baselines():
    code = (
        "import sys, mac_policy.operators; "
        "sys.exit(str([m for m in sys.modules if m.startswith(('mac_policy.evaluation', 'stable_baselines3'))]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == "[]"
