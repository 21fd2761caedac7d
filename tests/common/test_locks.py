"""Locks on folders, and what killed writers leave."""

import os
import signal
import time

import pytest

from mac_policy.common.locks import InUse, incoming, locked


def in_a_process(run):
    """A forked process that runs something and then waits to be killed; its id, once it has run."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        with run():
            os.write(writing, b"x")
            time.sleep(60)
    os.read(reading, 1)
    os.close(reading)
    os.close(writing)
    return child


def kill(child):
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_a_lock_ends_with_its_owner_and_leaves_nothing(tmp_path):
    child = in_a_process(lambda: locked(tmp_path / "run"))
    try:
        with pytest.raises(InUse, match="run is in use by another process"), locked(tmp_path / "run"):
            pass
        with locked(tmp_path / "other"):
            pass
    finally:
        kill(child)
    with locked(tmp_path / "run"):
        assert list((tmp_path / "run").iterdir()) == []


def test_one_may_wait_and_is_told_so_once(tmp_path):
    child, said = in_a_process(lambda: locked(tmp_path)), []

    def wait(what):
        said.append(what)
        kill(child)

    with locked(tmp_path, wait=wait):
        assert said == [f"waiting for another process, which is writing into {tmp_path}"]


def test_what_a_killed_writer_left_is_removed_and_what_a_living_one_writes_is_kept(tmp_path):
    dead, living = (in_a_process(lambda: incoming(tmp_path)) for _ in range(2))
    try:
        kill(dead)
        assert len(list(tmp_path.iterdir())) == 2
        (tmp_path / ".incoming-of-an-earlier-version").touch()
        with incoming(tmp_path) as mine:
            assert len(list(tmp_path.iterdir())) == 2
            assert mine.exists()
    finally:
        kill(living)
    with incoming(tmp_path) as mine:
        assert list(tmp_path.iterdir()) == [mine]
    assert list(tmp_path.iterdir()) == []


def test_a_lock_of_a_folder_that_its_owner_removes_is_that_of_the_new_one(tmp_path):
    folder = tmp_path / "work"
    with locked(folder):
        folder.rmdir()
        with locked(folder):
            assert folder.is_dir()
