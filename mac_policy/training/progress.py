"""The progress of a training: a bar on a terminal, otherwise a line for each validation."""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from types import TracebackType
from typing import Any


class Reporter:
    """Loss, steps per second and time left. `quiet` is for tests and for all processes but the first.

    The bar needs rich; without rich, a terminal gets the lines.
    """

    def __init__(self, title: str, total: int, done: int, quiet: bool = False) -> None:
        self.title, self.total, self.done, self.quiet = title, total, done, quiet
        self._first, self._begun = done, time.perf_counter()
        self._bar: Any = None
        if not quiet and sys.stdout.isatty() and find_spec("rich") is not None:
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            count = TextColumn("{task.completed}/{task.total} {task.fields[note]}")
            self._bar = Progress(
                TextColumn("{task.description}"), BarColumn(bar_width=24), count, TimeRemainingColumn()
            )
            self._task = self._bar.add_task(title, total=total, completed=done, note="")

    def __enter__(self) -> Reporter:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def rate(self) -> float:
        """Steps per second since the run began or was resumed."""
        return (self.done - self._first) / max(time.perf_counter() - self._begun, 1e-9)

    def step(self, done: int, loss: float) -> None:
        self.done = done
        if self._bar:
            self._bar.update(self._task, completed=done, note=f"loss {loss:.4g}, {self.rate():.0f} steps/s")

    def line(self, metrics: str) -> None:
        """A line of metrics, if there is no bar."""
        if not self._bar:
            left = (self.total - self.done) / max(self.rate(), 1e-9)
            self.note(f"{self.title} {self.done}/{self.total}: {metrics}, {self.rate():.0f} steps/s, {left:.0f} s left")

    def note(self, text: str) -> None:
        if self._bar:
            self._bar.console.print(text, highlight=False, markup=False, soft_wrap=True)
        elif not self.quiet:
            print(text, flush=True)
