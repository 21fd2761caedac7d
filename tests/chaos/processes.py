"""Processes that run a command and are killed: after a share of its processor time, or at one of its writes."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

WRITES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "shutil.rmtree"}
"""Audit events that change a folder, besides opening a file to write."""


class Ended(NamedTuple):
    """How a process ended."""

    code: int
    """Of its exit, or minus the signal."""
    said: str
    """The error that it ended with."""
    seconds: float
    """Of processor time."""


def start(run: Callable[[], Any], log: Path) -> int:
    """A forked process that runs a command in a process group of its own; its id. The parent must not have computed a
    gradient."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.setpgid(0, 0)
        torch.set_num_threads(1)
        run()
        code = 0
    except BaseException as error:
        log.write_text(f"{type(error).__name__}: {error}\n{traceback.format_exc()}")
    finally:
        os._exit(code)


def wait(child: int, log: Path) -> Ended:
    _, status, usage = os.wait4(child, 0)
    said = log.read_text() if log.exists() else ""
    log.unlink(missing_ok=True)
    return Ended(os.waitstatus_to_exitcode(status), said, usage.ru_utime + usage.ru_stime)


def run_whole(run: Callable[[], Any], log: Path) -> Ended:
    return wait(start(run, log), log)


def run_and_kill(run: Callable[[], Any], log: Path, seconds: float) -> Ended:
    """Run, and kill after so much processor time if it has not ended."""
    child = start(run, log)
    clock = (~child << 3) | 2  # Linux's clock of another process
    while not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        with contextlib.suppress(OSError):  # it ended just now
            if time.clock_gettime(clock) >= seconds:
                os.kill(child, signal.SIGKILL)
                break
        time.sleep(0.0005)
    return wait(child, log)


def at_each_write(folder: Path, call: Callable[[], None]) -> None:
    """From now on, call before this process opens a file within the folder to write, renames or removes one."""

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        opens = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if (opens or event in WRITES) and str(arguments[0]).startswith(str(folder)):
            call()

    sys.addaudithook(hear)


def count_writes(run: Callable[[], Any], folder: Path, note: Path) -> None:
    """Run, and write into a file how many writes there were."""
    writes = 0

    def count() -> None:
        nonlocal writes
        writes += 1

    at_each_write(folder, count)
    run()
    note.write_text(str(writes))


def run_and_kill_at_write(run: Callable[[], Any], folder: Path, log: Path, number: int) -> Ended:
    """Run, and kill before the write of this number, which is 1 for the first."""

    def doomed() -> None:
        left = number

        def count() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        at_each_write(folder, count)
        run()

    return run_whole(doomed, log)


class Killer:
    """Kills a command at random moments, in turn after some of its processor time and at one of its writes."""

    def __init__(self, run: Callable[[Path], Any], seconds: float, writes: int, seed: int) -> None:
        self.run, self.seconds, self.writes = run, seconds, writes
        self.rng = random.Random(seed)
        self.moments: list[str] = []

    def kill(self, folder: Path, log: Path, left: float = 1.0) -> float:
        """Kill the command in this folder once, where a share `left` of it is still to be done. The share left after
        it, 0 where it ended before."""
        share, run = self.rng.uniform(0.02, 0.98) * left, partial(self.run, folder)
        if len(self.moments) % 2:
            number = 1 + int(share * self.writes)
            ended, moment = run_and_kill_at_write(run, folder, log, number), f"at write {number} of {self.writes}"
        else:
            ended, moment = run_and_kill(run, log, share * self.seconds), f"at {share:.0%} of the time"
        if ended.code == -signal.SIGKILL:
            self.moments.append(moment + ("" if left == 1 else ", resumed"))
            return left - share
        assert ended.code == 0, ended.said
        return 0.0

    def kill_often(self, folder: Path, log: Path, most: int) -> int:
        """Kill and resume up to `most` times, until the command ends; how often it was killed."""
        left, before = 1.0, len(self.moments)
        while left > 0.02 and len(self.moments) < before + most:
            left = self.kill(folder, log, left)
        return len(self.moments) - before
