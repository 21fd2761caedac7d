"""Calls with a deadline."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Late(Exception):
    """A call did not return in time."""


class Answer(Generic[T]):
    """The result of a call in another thread, once `done` is set."""

    def __init__(self, call: Callable[[], T]) -> None:
        self.call = call
        self.done = threading.Event()
        self.error: Exception | None = None
        self.value: T | None = None

    def find(self) -> None:
        try:
            self.value = self.call()
        except Exception as error:
            self.error = error
        self.done.set()


class Deadline:
    """Runs calls in a thread of its own, one at a time, and stops waiting for a call that takes too long.

    A running call cannot be stopped: until a late call has returned, every further call is late at once.

    >>> Deadline(milliseconds=500).ask(lambda: 1 + 1)
    2
    """

    def __init__(self, milliseconds: float) -> None:
        self.milliseconds = milliseconds
        self._jobs: SimpleQueue[Answer[Any] | None] | None = None
        self._thread: threading.Thread | None = None
        self._pending: Answer[Any] | None = None

    def ask(self, call: Callable[[], T], patient: bool = False) -> T:
        """The call's result; raises `Late` when the call takes longer, unless `patient`."""
        if self._pending is not None and self._running() and not self._pending.done.is_set():
            raise Late(f"an earlier call still runs after more than {self.milliseconds:g} ms")
        answer = Answer(call)
        self._send(answer)
        if not answer.done.wait(None if patient else self.milliseconds / 1000):
            self._pending = answer
            raise Late(f"no answer within {self.milliseconds:g} ms")
        if answer.error is not None:
            raise answer.error
        return answer.value  # type: ignore[return-value]

    def _running(self) -> bool:
        """Whether the thread lives in this process: a forked process has lost it."""
        return self._thread is not None and self._thread.is_alive()

    def _send(self, answer: Answer[Any]) -> None:
        if self._jobs is None or not self._running():
            self._jobs = SimpleQueue()
            self._thread = threading.Thread(target=_work, args=(self._jobs,), daemon=True)
            self._thread.start()
            weakref.finalize(self, self._jobs.put, None)  # no thread outlives its owner
        self._jobs.put(answer)

    def __getstate__(self) -> dict[str, Any]:
        return {"milliseconds": self.milliseconds, "_jobs": None, "_thread": None, "_pending": None}


def _work(jobs: SimpleQueue[Answer[Any] | None]) -> None:
    while (answer := jobs.get()) is not None:
        answer.find()
        del answer
