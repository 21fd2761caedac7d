"""The benchmark of policies alone, on the teaching task."""

import json
import subprocess
import sys

import pytest

from mac_policy.policies.checkpoint import save_policy
from mac_policy.policies.registry import make_policy
from tests.evaluation.fork_runs import save_run
from tests.scripts.helpers import ROOT, script_environment
from tests.training.helpers import demonstrations, quickly, small


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    from mac_policy.policies.fit import train

    folder = tmp_path_factory.mktemp("runs")
    demos = demonstrations()
    for kind, seed in (("bc", 0), ("mac", 0), ("mac", 1)):
        train(small(kind, seed), demos, quickly(steps=20), folder / "fork" / f"{kind}-s{seed}", seed=seed, quiet=True)
    return folder


def run(*options, cwd):
    command = [sys.executable, str(ROOT / "benchmarks" / "full_autonomy.py"), *map(str, options), "--out", "out"]
    done = subprocess.run(
        command, cwd=cwd, env=script_environment(cwd, OMP_NUM_THREADS="1"), capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_arms_are_the_policies_and_their_variants_over_training_seeds(runs):
    code, out, err = run(
        runs / "fork", "--episodes", 7, "--envs", 3, "--decode", "mode", "sample", "--temperature", 0.3, 1, cwd=runs
    )
    assert code == 0, err
    record = json.loads((runs / "out" / "results.json").read_text())
    assert set(record["arms"]) == {
        "bc", "mac,decode=mode", "mac,decode=sample,temperature=0.3", "mac,decode=sample,temperature=1.0"
    }  # fmt: skip
    mac = record["arms"]["mac,decode=mode"]
    assert mac["training_seeds"] == [0, 1]
    assert mac["episodes"] == 14
    assert [len(rewards) for rewards in mac["rewards"]] == [7, 7]
    low, high = mac["ci95"]
    assert low <= mac["reward_mean"] <= high
    assert "bc - mac,decode=mode" in record["paired"]
    assert record["dataset"]["source"] == "scripted"
    assert out.splitlines()[-1] == "out/results.json"


def test_a_decode_that_is_given_holds_where_nothing_is_commanded(tmp_path, monkeypatch):
    from benchmarks import full_autonomy

    save_run(tmp_path, "mac", 0, decode_alone="sample")
    folder = str(tmp_path / "fork" / "mac-s0")
    for words, expected in (
        ([], {}),
        (["--decode", "mean"], {"decode": "mean", "decode_alone": None}),
        (["--temperature", "0.3"], {"temperature": 0.3}),
        (["--decode", "mode", "--temperature", "0.3"], {"decode": "mode", "decode_alone": None}),
    ):
        monkeypatch.setattr(sys, "argv", ["full_autonomy.py", folder, *words])
        (job,) = full_autonomy.plan(full_autonomy.parse())
        assert job.settings == expected


def test_a_policy_that_has_to_be_told_is_refused(tmp_path, monkeypatch):
    from benchmarks import full_autonomy
    from tests.policies.conftest import LABELS, SMALL, SPACES

    policy = make_policy("bc", SPACES._replace(labels=LABELS), SMALL["bc"])
    save_policy(policy, tmp_path / "fork" / "bc-told-s0", dataset={"source": "scripted"})
    monkeypatch.setattr(sys, "argv", ["full_autonomy.py", str(tmp_path / "fork")])
    with pytest.raises(ValueError, match="bc-told-s0 has to be told its labels"):
        full_autonomy.plan(full_autonomy.parse())


def test_episodes_do_not_depend_on_how_many_run_together(runs):
    rewards = []
    for envs in (1, 5):
        assert run(runs / "fork" / "mac-s0", "--episodes", 6, "--envs", envs, cwd=runs)[0] == 0
        rewards.append(json.loads((runs / "out" / "results.json").read_text())["arms"]["mac"]["rewards"])
    assert rewards[0] == rewards[1]


def test_mistakes_are_one_line(runs):
    for options, message in (
        ((runs / "nowhere",), "is no policy folder and holds none"),
        ((runs / "fork", "--decode", "modal"), "unknown decode 'modal'"),
        ((runs / "fork", "--set", "noise"), "write KEY=VALUE"),
        ((runs / "fork", "--set", "decod=best"), "unknown setting of these policies 'decod'"),
    ):
        code, _, err = run(*options, "--episodes", 1, cwd=runs)
        assert code != 0
        assert message in err
        assert "Traceback" not in err
