"""A function applied to many items in worker processes; results come in the order of completion.

Python raises KeyboardInterrupt between any two instructions, also while a process pool holds a lock. The lock is then
never released, and the program and its workers wait forever. Interrupts are therefore noted at once and raised where
this is safe.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
LISTEN_SECONDS = 0.2
"""Longest time until an interrupt is raised."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)
DEATH_SIGNAL = 1
"""Linux's PR_SET_PDEATHSIG."""


class Terminated(KeyboardInterrupt):
    """SIGTERM, as KeyboardInterrupt is SIGINT."""


def map_processes(
    function: Callable[[T], R], items: Sequence[T], workers: int | None = None
) -> Generator[R, None, None]:
    """function(item) for every item, in the order of completion; a single worker is this process.

    Workers (one per core where `workers` is None) have one thread each and end with this process, however it ends.
    The function and the items are pickled. Close the generator when you leave it early.
    """
    workers = min(workers or os.cpu_count() or 1, len(items))
    if workers <= 1:
        yield from map(function, items)
        return
    pickle.dumps(function)  # raises here; in a worker pool the error could be followed by an endless wait
    context = multiprocessing.get_context("spawn")
    with _one_thread_each(), _interrupts_noted() as interrupted:
        pool = ProcessPoolExecutor(workers, context, _end_with_parent)
        try:
            yield from _through(pool, function, items, 2 * workers, interrupted)
        except Terminated:  # there may be no time to wait for what the workers are doing
            _kill(pool)
            raise
        except BrokenProcessPool as error:
            if interrupted:  # by a signal to the whole process group
                raise interrupted[-1] from error
            raise OSError(
                "a worker process died, possibly out of memory; finished items are kept: run the same command again "
                "with fewer workers"
            ) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _through(
    pool: ProcessPoolExecutor,
    function: Callable[[T], R],
    items: Sequence[T],
    ahead: int,
    interrupted: list[type[KeyboardInterrupt]],
) -> Iterator[R]:
    """The results in the order of completion, with `ahead` items submitted at a time; raises what has `interrupted`."""
    queue, pending = iter(items), set[Future[R]]()
    while True:
        with _interrupts_blocked():  # workers inherit this: the parent alone handles interrupts
            pending |= {pool.submit(function, item) for item in islice(queue, ahead - len(pending))}
        if not pending:
            return
        done, pending = wait(pending, timeout=LISTEN_SECONDS, return_when=FIRST_COMPLETED)
        for future in done:
            yield future.result()
        if interrupted:
            raise interrupted[-1]


def _kill(pool: ProcessPoolExecutor) -> None:
    for process in list((pool._processes or {}).values()):
        process.kill()


@contextmanager
def _interrupts_noted() -> Iterator[list[type[KeyboardInterrupt]]]:
    """Within the context an interrupt is added to the list and raises nothing; the caller raises it.

    Interrupts that were ignored before (in a background job of a shell) stay ignored, and SIGTERM keeps its default,
    which ends the process, where nothing raises `Terminated`. Only the main thread may change how they are handled.
    """
    noted: list[type[KeyboardInterrupt]] = []
    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number, kind in zip(SIGNALS, (KeyboardInterrupt, Terminated), strict=True):
            if callable(signal.getsignal(number)):
                before[number] = signal.signal(number, lambda *_, kind=kind: noted.append(kind))
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def terminations_raised() -> Iterator[None]:
    """Within the context SIGTERM raises `Terminated`, so that files are closed and workers end."""

    def stop(*_: Any) -> None:
        raise Terminated

    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Within the context interrupts are deferred, and processes started in it never receive one."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """One thread in each worker, which inherits the environment: thread pools would compete for the cores."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _end_with_parent() -> None:
    """End this worker when its parent ends; it would otherwise wait for work forever. Linux ends it at once, also in
    the middle of an import, which no thread of it can interrupt."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent.pid:  # it ended before
            os._exit(1)

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
