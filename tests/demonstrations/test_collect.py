import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from rich.console import Console

from mac_policy.demonstrations import Scripted, read_minari
from mac_policy.demonstrations.collect import (
    collect,
    collect_into_store,
    episode_file,
    load_episode,
    save_episode,
    work_folder,
)
from mac_policy.demonstrations.episode import content_sha256
from tests.demonstrations.helpers import die, make_episode, record, record_slowly, record_until_it_breaks

QUIET = Console(quiet=True)


def sha(work, recorder=record, episodes=8, seed=0, workers=1):
    found = collect(recorder, episodes, seed=seed, work=work, workers=workers, console=QUIET)
    assert len(found) == episodes
    return content_sha256(found)


def test_parallel_and_serial_collections_are_the_same_bytes(tmp_path):
    serial = sha(tmp_path / "a", workers=1)
    assert sha(tmp_path / "b", workers=2) == serial
    assert sha(tmp_path / "c", seed=1) != serial


def test_a_collection_goes_on_where_it_stopped(tmp_path, monkeypatch):
    monkeypatch.setenv("BREAK_AT", "3")
    with pytest.raises(RuntimeError, match="fell over"):
        sha(tmp_path / "a", record_until_it_breaks)
    kept = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "a").glob("episode_*")}
    assert len(kept) == 3
    monkeypatch.delenv("BREAK_AT")
    assert sha(tmp_path / "a", record_until_it_breaks) == sha(tmp_path / "b")
    assert all((tmp_path / "a" / name).stat().st_mtime_ns == at for name, at in kept.items())


def test_a_killed_collector_leaves_whole_episodes_and_no_workers(tmp_path):
    script = f"""
        from pathlib import Path
        from mac_policy.demonstrations.collect import collect
        from tests.demonstrations.helpers import record_slowly
        if __name__ == "__main__":
            collect(record_slowly, 200, seed=0, work=Path({str(tmp_path / "a")!r}), workers=2)
    """
    file = tmp_path / "run.py"
    file.write_text(textwrap.dedent(script))
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    run = subprocess.Popen([sys.executable, str(file)], stderr=subprocess.DEVNULL, env=environment)
    deadline = time.monotonic() + 60
    while len(list((tmp_path / "a").glob("episode_*.npz"))) < 3:
        assert time.monotonic() < deadline, "the collector recorded nothing"
        time.sleep(0.05)
    run.send_signal(signal.SIGKILL)
    run.wait()
    time.sleep(0.5)
    complete = sorted((tmp_path / "a").glob("episode_*.npz"))
    time.sleep(0.7)
    assert sorted((tmp_path / "a").glob("episode_*.npz")) == complete  # nobody goes on recording
    assert len(complete) < 200
    assert all(load_episode(path) is not None for path in complete)
    assert sha(tmp_path / "a", record_slowly, 5) == sha(tmp_path / "b", record, 5)


def test_a_worker_that_dies_is_said(tmp_path):
    with pytest.raises(OSError, match=r"a worker process died.*finished items are kept"):
        sha(tmp_path, die, workers=2)


def test_episodes_of_another_recorder_are_not_mixed_in(tmp_path):
    sha(tmp_path, record)
    with pytest.raises(ValueError, match="unfinished collection by another recorder"):
        sha(tmp_path, record_slowly)
    with pytest.raises(ValueError, match="unfinished collection by another recorder"):
        sha(tmp_path, record, seed=1)


def test_a_damaged_episode_is_recorded_again(tmp_path):
    whole = sha(tmp_path)
    path = episode_file(tmp_path, 2)
    path.write_bytes(path.read_bytes()[:200])
    assert load_episode(path) is None
    assert sha(tmp_path) == whole


def test_an_episode_file_keeps_every_field(tmp_path):
    episode = make_episode(completed=("kettle",), seed=3, executed=make_episode(draw=9).actions)
    save_episode(tmp_path / "e.npz", episode)
    assert content_sha256([load_episode(tmp_path / "e.npz")]) == content_sha256([episode])
    assert [path.name for path in tmp_path.iterdir()] == ["e.npz"]


def test_a_full_disk_is_said_and_leaves_no_file(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"episode could not be written.*No space left.*finished episodes are kept"):
        save_episode(tmp_path / "e.npz", make_episode())
    assert list(tmp_path.iterdir()) == []


def test_a_collection_ends_up_in_the_store():
    folder = collect_into_store(Scripted(record, episodes=4, seed=2), "lab/made-v0", workers=1, console=QUIET)
    read = read_minari("lab/made-v0")
    assert folder == Path(read.source.location)
    assert read.source.kind == "scripted"
    assert content_sha256(read.episodes) == content_sha256([record(seed=2, index=i) for i in range(4)])
    assert not work_folder("lab/made-v0", 2).exists()


def test_an_existing_data_set_is_not_recorded_over():
    scripted = Scripted(record, episodes=2)
    collect_into_store(scripted, "lab/made-v0", workers=1, console=QUIET)
    with pytest.raises(ValueError, match="overwrite=true"):
        collect_into_store(scripted, "lab/made-v0", workers=1, console=QUIET)
    assert not work_folder("lab/made-v0", 0).exists()


@pytest.mark.parametrize(
    "wrong",
    [{"episodes": 0}, {"episodes": 2.5}, {"episodes": "many"}, {"seed": -1}, {"seed": "x"}, {"workers": 0}],
)
def test_what_is_no_count_is_refused_before_anything_is_made(tmp_path, wrong):
    settings = {"episodes": 2, "seed": 0, "workers": 1, **wrong}
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be a whole number"):
        collect(record, work=tmp_path / "work", **settings)
    assert not (tmp_path / "work").exists()


def test_the_environment_is_left_as_it_was(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    sha(tmp_path, episodes=2, workers=2)
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "MKL_NUM_THREADS" not in os.environ
