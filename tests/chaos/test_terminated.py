"""SIGTERM ends the real commands in a sentence, with no traceback, no warning of a tracker, and no process left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.scripts.helpers import ROOT, script_environment

pytestmark = pytest.mark.slow
SECONDS = 300
COMMANDS = {
    "train_policy": (
        ("task=fork", "policy=bc", "data.episodes=12", "bc.width=16", "training.steps=1000000",
         "training.accelerator=cpu", "training.save_seconds=0.5"),
        "runs/**/state.safetensors",
    ),
    "collect_demos": (("task=fork", "episodes=50000", "workers=2"), "store/.collecting/*/episode_*.npz"),
    "shared_autonomy": (
        ("task=fork", "operator=expert", "arms=[operator,zeros]", "operator_dims=1", "episodes=50000", "workers=2",
         "video=false"),
        "runs/**/episodes.jsonl",
    ),
    "benchmark": (
        ("benchmark=table", "data.path=table.csv", "preset=smoke", "arms=[mac]", "seeds=[0]", "training.steps=1000000",
         "training.save_seconds=0.5"),
        "runs/**/state.safetensors",
    ),
}  # fmt: skip
"""Options with which each command takes long, and a file that shows that it is at work."""


def launch(name, folder):
    np.savetxt(folder / "table.csv", np.random.default_rng(0).normal(size=(200, 3)), delimiter=",")
    environment = script_environment(folder, OMP_NUM_THREADS="1", PYTHONPATH=str(ROOT))
    words = [sys.executable, str(ROOT / "scripts" / f"{name}.py"), *COMMANDS[name][0]]
    with (folder / "out.txt").open("w") as out:
        return subprocess.Popen(
            words, cwd=folder, env=environment, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )


def wait_for(what):
    until = time.monotonic() + SECONDS
    while not what():
        assert time.monotonic() < until, "nothing happened"
        time.sleep(0.02)


def lives(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("early", [False, True], ids=["at work", "at its start"])
def test_a_terminated_command_says_so_and_leaves_no_process(tmp_path, name, early):
    process = launch(name, tmp_path)
    try:
        if early:
            clock = (~process.pid << 3) | 2  # Linux's clock of another process
            wait_for(lambda: time.clock_gettime(clock) > 1)
        else:
            wait_for(lambda: process.poll() is not None or list(tmp_path.glob(COMMANDS[name][1])))
        process.send_signal(signal.SIGTERM)
        code = process.wait(SECONDS)
        said = (tmp_path / "out.txt").read_text()
        wait_for(lambda: not lives(process.pid))
    finally:
        if lives(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
    if early and code == -signal.SIGTERM:  # before the command itself began
        assert "terminated:" not in said
    else:
        assert code == 143, said
        assert said.splitlines()[-1] == "terminated: finished work is kept, and the same command resumes"
        assert sum(line.startswith("terminated:") for line in said.splitlines()) == 1
    for word in ("Traceback", "Warning", "resource_tracker", "leaked"):
        assert word not in said, said
