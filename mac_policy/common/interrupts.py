"""Keyboard interrupts while worker processes run: noted at once, raised where it is safe.

Python raises KeyboardInterrupt between any two instructions, also where a process pool holds a lock. The lock is then
never released, and the program and its workers wait forever.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupts_noted() -> Iterator[threading.Event]:
    """Within the context an interrupt sets the event and raises nothing; the caller raises KeyboardInterrupt.

    Interrupts that were ignored before (a shell's background job) stay ignored, and only the main thread
    may change how they are handled.
    """
    noted = threading.Event()
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield noted
        return
    before = signal.signal(signal.SIGINT, lambda *_: noted.set())
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Within the context interrupts are deferred, and processes started in it never receive one."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
