"""A function over many items in worker processes."""

import os
import pickle
import signal
import sys
import time
from pathlib import Path

import pytest

from mac_policy.common.processes import Terminated, map_processes, terminations_raised


def square(number):
    return number**2


@pytest.mark.parametrize("workers", [1, 2])
def test_every_item_is_answered_once(workers):
    assert sorted(map_processes(square, range(7), workers)) == [number**2 for number in range(7)]


def test_a_function_that_cannot_be_sent_to_workers_is_refused_at_once():
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        list(map_processes(lambda number: number, range(4), 2))


def note_and_sleep(folder):
    (Path(folder) / f"{os.getpid()}").touch()
    time.sleep(60)


def in_workers(folder):
    """A process group that maps over two workers, as a command does; once both work."""
    child = os.fork()
    if not child:
        os.setpgid(0, 0)
        code = 1
        try:
            with terminations_raised():
                list(map_processes(note_and_sleep, [str(folder)] * 4, 2))
        except Terminated:
            code = 143
        finally:
            os._exit(code)
    deadline = time.monotonic() + 60
    while len(list(folder.iterdir())) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return child, [int(path.name) for path in folder.iterdir()]


def end_within(processes, seconds):
    deadline = time.monotonic() + seconds
    while any(is_running(process) for process in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def is_running(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize("whole_group", [False, True])
def test_sigterm_ends_workers_and_is_raised(tmp_path, whole_group):
    child, workers = in_workers(tmp_path)
    (os.killpg if whole_group else os.kill)(child, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 143
    assert end_within(workers, 10)


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_workers_end_with_a_killed_parent(tmp_path):
    child, workers = in_workers(tmp_path)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert end_within(workers, 10)
