"""The example of a learned operator runs as it says, and leaves what it promises."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mac_policy.operators.dims import OperatorDims
from mac_policy.operators.from_file import SB3Operator

ROOT = Path(__file__).parents[2]


def run(*options, expect=0):
    command = [sys.executable, str(ROOT / "examples" / "learn_operator.py"), *map(str, options)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == expect, done.stderr
    return done


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    out = tmp_path_factory.mktemp("learned")
    return out, run("--steps", 1024, "--seeds", 1, "--episodes", 3, "--out", out)


def test_it_says_where_the_results_are_and_every_arm_is_in_them(small):
    out, done = small
    assert done.stdout.rstrip().endswith(str(out / "results.json"))
    record = json.loads((out / "results.json").read_text())
    assert {"schema", "command", "versions", "machine", "dataset"} <= set(record)
    assert record["dataset"]["name"] == "fork"
    assert set(record["arms"]) == {"filter", "blind", "full"}
    for arm in record["arms"].values():
        assert (arm["episodes"], arm["training_seeds"]) == (3, [0])
        assert arm["ci95"][0] <= arm["reward_mean"] <= arm["ci95"][1]
        assert len(arm["curves"][0]) == 30
    assert (out / "reward.png").stat().st_size > 10_000


def test_the_learned_operators_can_be_used(small):
    out, _ = small
    for arm, shape in (("filter", (1,)), ("full", (2,))):
        operator = SB3Operator(out / f"{arm}-s0.zip", OperatorDims.parse(1, 2))
        assert operator.model.action_space.shape == shape
        assert operator([0.0, 0.0]).mask.tolist() == [True, False]


def test_what_cannot_be_run_is_said_in_one_line(tmp_path):
    done = run("--env", "kitchen", "--policy", tmp_path / "nothing", "--out", tmp_path, expect=1)
    assert done.stderr.strip().endswith("run python scripts/train_policy.py task=kitchen-mixed")
    assert "Traceback" not in done.stderr
    done = run("--seeds", 0, expect=1)
    assert done.stderr.strip() == "error: seeds must be a whole number of at least 1, got 0"
