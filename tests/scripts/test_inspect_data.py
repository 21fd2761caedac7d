from pathlib import Path

import numpy as np

import envs  # noqa: F401  (registers the tasks)
from tests.demonstrations.helpers import write_d4rl
from tests.scripts.helpers import run_here, run_script

SCRIPT = "inspect_data.py"


def test_a_task_is_summarised_and_drawn(tmp_path):
    code, out, error = run_script(
        SCRIPT, "dataset=fork", "data.episodes=8", "video=1", "format=gif", "out=seen", cwd=tmp_path
    )
    assert code == 0, error
    for text in ("mac-policy/fork-scripted-v0", "scripted", "episodes", "96", "goal", "Range of actions"):
        assert text in out
    assert out.splitlines()[-1] == "seen"
    assert {path.name for path in (tmp_path / "seen").iterdir()} == {
        "actions.png",
        "completions.png",
        "episode_1.gif",
    }


def test_a_file_of_any_task_is_summarised(tmp_path):
    path = write_d4rl(tmp_path / "walk.hdf5", (30, 20))
    code, out, error = run_here(SCRIPT, f"dataset={path}", cwd=tmp_path)
    assert code == 0, error
    assert "walk" in out
    assert "constant" in out  # the third observation is 1 throughout
    folder = tmp_path / out.splitlines()[-1]
    assert folder.parent == tmp_path / "runs" / "inspect_data"
    assert (folder / "actions.png").is_file()


def test_mistakes_are_clean(tmp_path):
    write_d4rl(tmp_path / "nan.hdf5", actions=np.full((12, 2), np.nan))
    for options, message in (
        (("dataset=nowhere.hdf5",), "error: no file at nowhere.hdf5"),
        (("dataset=nan.hdf5",), "values that are not finite"),
        (("dataset=lab/other-v0",), "error: no demonstrations of lab/other-v0"),
        (("dataset=kitchen-mixed", "data.source=human"), "minari download D4RL/kitchen/mixed-v2"),
        (("dataset=fork", "format=avi"), "error: unknown format 'avi'; allowed are 'mp4', 'gif'"),
        (("dataset=fork", "data.orders=x"), "error: unknown option 'data.orders'"),
        (("dataset=fork", "data.episodes=2", "video=7"), "error: video=7: there are episodes 0 to 1"),
    ):
        code, _, error = run_here(SCRIPT, *options, cwd=tmp_path)
        assert code == 2, error
        assert message in error
        assert "Traceback" not in error


def test_help_explains_every_option(tmp_path):
    code, out, _ = run_here(SCRIPT, "--help", cwd=tmp_path)
    assert code == 0
    for option in ("dataset", "observation", "video", "format", "size", "out", "data.source", "data.outside"):
        assert f"\n{option}" in out
    assert not (Path(tmp_path) / "outputs").exists()
