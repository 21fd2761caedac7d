import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import envs  # noqa: F401  (registers the tasks)
from mac_policy.demonstrations import read_minari
from tests.scripts.helpers import ROOT, run_here, run_script, script_environment

SCRIPT = "collect_demos.py"


def test_a_data_set_is_recorded_and_its_folder_is_the_last_line(tmp_path):
    options = ("task=fork", "episodes=6", "seed=4", "workers=2", "author=Ada", "code_permalink=https://x.org/c")
    code, out, error = run_script(SCRIPT, *options, cwd=tmp_path)
    assert code == 0, error
    folder = Path(out.splitlines()[-1])
    assert folder == tmp_path / "store" / "mac-policy" / "fork-scripted-v0"
    demos = read_minari(folder)
    assert (len(demos), demos.source.kind) == (6, "scripted")
    metadata = json.loads((folder / "data" / "metadata.json").read_text())
    assert metadata["author"] == ["Ada"]
    assert metadata["code_permalink"] == "https://x.org/c"
    assert metadata["algorithm_name"]
    assert metadata["description"]
    assert "mac_policy/fork-v0" in metadata["env_spec"]
    assert "6 of 6" in error  # the progress
    assert [path.name for path in tmp_path.iterdir()] == ["store"]  # no litter

    code, out, error = run_here(SCRIPT, *options, cwd=tmp_path)
    assert (code, out) == (2, "")
    assert "overwrite=true replaces it" in error
    assert "Traceback" not in error

    code, out, error = run_here(SCRIPT, *options, "workers=1", "overwrite=true", cwd=tmp_path)
    assert code == 0, error
    assert read_minari(folder).source.sha256 == demos.source.sha256


def test_a_killed_run_is_resumed_by_the_same_command(tmp_path):
    command = [sys.executable, str(ROOT / "scripts" / SCRIPT), "task=fork", "episodes=3000", "workers=1"]
    run = subprocess.Popen(command, cwd=tmp_path, env=script_environment(tmp_path), stderr=subprocess.DEVNULL)
    try:
        work = wait_for_episodes(tmp_path, 20)
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait()
    kept = {path.name: path.stat().st_mtime_ns for path in work.glob("episode_*.npz")}
    assert 20 <= len(kept) < 3000
    code, out, error = run_script(SCRIPT, "task=fork", f"episodes={len(kept) + 5}", cwd=tmp_path)
    assert code == 0, error
    assert len(read_minari(Path(out.splitlines()[-1]))) == len(kept) + 5
    assert not work.exists()


def hear_interrupts():
    """As at a terminal: a test run in the background of a shell inherits that interrupts are ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("presses", [1, 30])
def test_an_interrupt_is_clean_however_often(tmp_path, presses):
    command = [sys.executable, str(ROOT / "scripts" / SCRIPT), "task=fork", "episodes=30000", "workers=2"]
    run = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=script_environment(tmp_path),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=hear_interrupts,
    )
    try:
        wait_for_episodes(tmp_path, 5)
        for _ in range(presses):
            os.killpg(run.pid, signal.SIGINT)  # as Ctrl-C does: to the workers too
            time.sleep(0.003)
        _, error = run.communicate(timeout=20)
        assert run.returncode == 130
        assert error.strip().endswith("interrupted")
        assert "Traceback" not in error
        assert everybody_ends(run.pid, seconds=5)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)


def everybody_ends(group, seconds):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def wait_for_episodes(folder, number):
    work = folder / "store" / ".collecting" / "mac-policy--fork-scripted-v0-seed0"
    deadline = time.monotonic() + 60
    while len(list(work.glob("episode_*.npz"))) < number:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return work


def test_mistakes_are_one_line(tmp_path):
    for options, message in (
        (("task=minari",), "error: task=minari needs dataset="),
        (("task=fork", "episodes=0"), "error: episodes must be a whole number of at least 1"),
        (("task=fork", "episodes=many"), "error: episodes must be a whole number"),
        (("task=fork", "workers=[1]"), "error: workers must be a whole number"),
        (("task=fork", "episode=3"), "error: unknown option 'episode'"),
        (
            ("task=fork", "data.order=random"),
            "error: data.order=random: the demonstrations of fork have only one order",
        ),
        (("task=fork", "overwrite=perhaps"), "error: overwrite must be true or false, got 'perhaps'"),
        (("task=fork", "dataset_id=7"), "error: '7' is no Minari id"),
        (("task=fork", "dataset_id=nameless"), "error: 'nameless' is no Minari id"),
    ):
        code, _, error = run_here(SCRIPT, *options, cwd=tmp_path)
        assert code == 2, error
        assert error.strip().startswith(message)
        assert len(error.strip().splitlines()) == 1


def test_the_former_name_of_an_option_works_and_warns(tmp_path):
    code, _, error = run_here(SCRIPT, "task=fork", "order=random", cwd=tmp_path)
    assert code == 2
    assert error.splitlines() == [
        "warning: the option order is called data.order now",
        "error: data.order=random: the demonstrations of fork have only one order",
    ]


def test_a_renderer_that_does_not_exist_is_one_line(tmp_path):
    options = ("task=kitchen-mixed", "episodes=1", "workers=1")
    code, _, error = run_script(SCRIPT, *options, cwd=tmp_path, MUJOCO_GL="nonsense")
    assert code == 2, error
    assert "the simulator cannot be loaded with MUJOCO_GL=nonsense" in error
    assert "unset MUJOCO_GL" in error
    assert "Traceback" not in error


def test_help_explains_every_option(tmp_path):
    code, out, _ = run_here(SCRIPT, "--help", cwd=tmp_path)
    assert code == 0
    for option in ("task", "episodes", "seed", "workers", "dataset_id", "overwrite", "author", "code_permalink"):
        assert f"\n{option}" in out
