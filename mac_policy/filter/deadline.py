"""Calls with a deadline."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Unanswered
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class Late(Exception):
    """A call did not return in time."""


class Deadline:
    """Runs calls in a thread of its own, one at a time, and stops waiting for a call that takes too long.

    A running call cannot be stopped: until a late call has returned, every further call is late at once.

    >>> Deadline(milliseconds=500).ask(lambda: 1 + 1)
    2
    """

    def __init__(self, milliseconds: float) -> None:
        self.milliseconds = milliseconds
        self._jobs: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] | None = None
        self._thread: threading.Thread | None = None
        self._pending: Future[Any] | None = None

    def ask(self, call: Callable[[], T], patient: bool = False) -> T:
        """The call's result; raises `Late` when the call takes longer, unless `patient`."""
        running = self._thread is not None and self._thread.is_alive()  # a forked process has lost the thread
        if running and self._pending is not None and not self._pending.done():
            raise Late(f"an earlier call still runs after more than {self.milliseconds:g} ms")
        if self._jobs is None or not running:
            self._jobs = SimpleQueue()
            self._thread = threading.Thread(target=_work, args=(self._jobs,), daemon=True)
            self._thread.start()
            weakref.finalize(self, self._jobs.put, None)  # no thread outlives its owner
        answer: Future[T] = Future()
        self._jobs.put((call, answer))
        try:
            return answer.result(None if patient else self.milliseconds / 1000)
        except Unanswered:
            if answer.done():  # at the last moment, or the call itself raised this error
                return answer.result()
            self._pending = answer
            raise Late(f"no answer within {self.milliseconds:g} ms") from None

    def __getstate__(self) -> dict[str, Any]:
        return {"milliseconds": self.milliseconds, "_jobs": None, "_thread": None, "_pending": None}


def _work(jobs: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None]) -> None:
    while (job := jobs.get()) is not None:
        call, answer = job
        try:
            answer.set_result(call())
        except BaseException as error:  # also SystemExit, which would end this thread in silence
            answer.set_exception(error)
        del job, call, answer
