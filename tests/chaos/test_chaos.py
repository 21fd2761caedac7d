"""Kills at random moments, full disks, folders that cannot be written, two at once, and clocks that are set back: the
same command afterwards ends in the same bytes."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import time
import zlib
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from mac_policy.demonstrations.minari_store import local_path
from tests.chaos.disks import read_only, resize, small_disk, used
from tests.chaos.processes import Ended, Killer, count_writes, run_and_kill, run_whole, start, wait
from tests.chaos.works import SET, WORKS, collect_small

pytestmark = pytest.mark.slow
KILLS = int(os.environ.get("CHAOS_KILLS", "20"))
"""Of each kind of command."""


class Whole(NamedTuple):
    """What a command leaves and takes when nothing disturbs it."""

    ends: Any
    seconds: float
    writes: int


@pytest.fixture(params=WORKS)
def name(request):
    return request.param


@pytest.fixture
def work(name):
    return WORKS[name]


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log.txt"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", "nowhere")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="module")
def whole_of(tmp_path_factory):
    """What is measured of an undisturbed command, once for each."""

    @cache
    def measure(name: str) -> Whole:
        parent, work = tmp_path_factory.mktemp(name), WORKS[name]
        folder, log, note = fresh(work, parent / "whole"), parent / "log.txt", parent / "writes.txt"
        assert ended_well(run_whole(partial(count_writes, partial(work.run, folder), folder, note), log))
        ended = ended_well(run_whole(partial(work.run, fresh(work, parent / "again")), log))
        assert same(work.ends(parent / "again"), work.ends(folder))
        return Whole(work.ends(folder), ended.seconds, int(note.read_text()))

    return measure


def fresh(work, folder: Path) -> Path:
    """An empty folder in which a command may begin."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    work.prepare(folder)
    return folder


def ended_well(ended: Ended) -> Ended:
    assert ended.code == 0, ended.said
    return ended


def same(first: Any, second: Any) -> bool:
    if isinstance(first, (list, tuple)) and isinstance(second, (list, tuple)):
        return len(first) == len(second) and all(map(same, first, second))
    return bool(np.all(first == second))


def test_killed_at_random_moments_it_ends_in_the_same_bytes(tmp_path, log, name, work, whole_of):
    whole = whole_of(name)
    killer = Killer(work.run, whole.seconds, whole.writes, seed=zlib.crc32(name.encode()))
    kills = ends = 0
    while kills < KILLS:
        folder = fresh(work, tmp_path / "killed")
        kills += killer.kill_often(folder, log, min(4, KILLS - kills))
        ended_well(run_whole(partial(work.run, folder), log))
        assert same(work.ends(folder), whole.ends), killer.moments[-4:]
        ends += 1
    print(f"\n{name}: {kills} kills of a running process, {ends} ends, all the same; undisturbed {whole.seconds:.2f} s")
    print("; ".join(killer.moments))


def test_a_set_that_is_being_replaced_is_never_lost(tmp_path, log):
    work = WORKS["collection"]
    folder = fresh(work, tmp_path / "store")
    ended_well(run_whole(partial(collect_small, folder), log))
    note = tmp_path / "writes.txt"
    replace = partial(collect_small, overwrite=True)
    seconds = ended_well(run_whole(partial(count_writes, partial(replace, folder), folder, note), log)).seconds
    killer = Killer(replace, seconds, int(note.read_text()), seed=5)
    while len(killer.moments) < KILLS:
        killer.kill(folder, log)
        os.environ["MINARI_DATASETS_PATH"] = str(folder / "store")
        assert local_path(SET) is not None
        assert work.ends(folder)[0]
    ended_well(run_whole(partial(replace, folder), log))
    assert work.ends(folder)[1:] == ([], [])


@pytest.mark.parametrize("share", [0.05, 0.4, 0.8])
def test_a_full_disk_is_said_with_the_file_and_loses_nothing(tmp_path, log, name, work, whole_of, share):
    """A disk of its own, in memory, on which a share of what the command writes has room."""
    folder, whole = tmp_path / "disk", whole_of(name)
    with small_disk(folder):
        fresh(work, folder)
        before = used(folder)
        run_whole(partial(work.run, folder), log)
        needed = used(folder) - before
        fresh(work, folder)
        resize(folder, used(folder) + int(share * needed))
        ended = run_whole(partial(work.run, folder), log)
        said = ended.said.partition("\n")[0]
        assert ended.code == 0 or ("No space left on device" in said and str(folder) in said), ended.said
        resize(folder, 64_000_000)
        ended_well(run_whole(partial(work.run, folder), log))
        assert same(work.ends(folder), whole.ends)
        print(f"\n{name}, {share:.0%} of {needed:,} bytes: {said or 'ended all the same'}")


@pytest.mark.parametrize("size", [0, 3000])
def test_a_file_that_cannot_grow_loses_nothing(tmp_path, log, name, work, whole_of, size):
    """A limit on the size of files: a write fails half way."""

    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        work.run(folder)

    folder = fresh(work, tmp_path / "full")
    child = start(limited, tmp_path / "error.txt")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) in (0, 1)
    ended_well(run_whole(partial(work.run, folder), log))
    assert same(work.ends(folder), whole_of(name).ends)


def test_the_error_of_a_full_disk_names_the_file(tmp_path):
    from mac_policy.common.files import named

    error = named(OSError(28, "No space left on device"), tmp_path / "model.safetensors")
    assert error.errno == 28
    assert str(tmp_path / "model.safetensors") in str(error)


def test_two_at_once_end_as_one(tmp_path, log, name, work, whole_of):
    folder = fresh(work, tmp_path / "two")
    children = [(start(partial(work.run, folder), tmp_path / each), tmp_path / each) for each in ("a.txt", "b.txt")]
    ends: list[Ended] = [wait(child, path) for child, path in children]
    assert any(ended.code == 0 for ended in ends), [ended.said for ended in ends]
    for ended in ends:
        assert ended.code == 0 or ended.said.startswith("InUse: ") or "exists at" in ended.said, ended.said
    assert same(work.ends(folder), whole_of(name).ends)


@pytest.mark.parametrize("years", [-30, 30])
def test_a_clock_that_is_set_changes_nothing(tmp_path, log, name, work, whole_of, years):
    """The second part of the command is run at another time, with files that are as old or as new as that."""
    folder, whole, shift = fresh(work, tmp_path / "clock"), whole_of(name), years * 365.25 * 86400
    run_and_kill(partial(work.run, folder), log, 0.5 * whole.seconds)
    for path in folder.rglob("*"):
        os.utime(path, (time.time() - shift,) * 2)

    def at_another_time():
        real = time.time
        time.time = lambda: real() + shift
        work.run(folder)

    ended_well(run_whole(at_another_time, log))
    assert same(work.ends(folder), whole.ends)


def test_a_folder_that_cannot_be_written_is_said_and_left_as_it_is(tmp_path, log, name, work, whole_of):
    folder, whole = fresh(work, tmp_path / "closed"), whole_of(name)
    run_and_kill(partial(work.run, folder), log, random.Random(name).uniform(0.1, 0.9) * whole.seconds)
    before = sorted(folder.rglob("*"))
    with read_only(folder):
        ended = run_whole(partial(work.run, folder), log)
    assert ended.code == 1
    said = ended.said.partition("\n")[0]
    assert "Read-only file system" in said
    assert str(folder) in said
    assert sorted(folder.rglob("*")) == before
    ended_well(run_whole(partial(work.run, folder), log))
    assert same(work.ends(folder), whole.ends)
