"""A progress bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


class Reporter:
    """Loss, steps a second and time left. `quiet` for processes that are not the first, and for tests."""

    def __init__(self, title: str, total: int, done: int, quiet: bool = False) -> None:
        self.console = Console(quiet=quiet)
        self.title, self.total, self.done = title, total, done
        self._first, self._begun = done, time.perf_counter()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed}/{task.total} {task.fields[note]}"),
            TimeRemainingColumn(),
            console=self.console,
            disable=quiet or not self.console.is_terminal,
        )
        self._task = self._bar.add_task(title, total=total, completed=done, note="")

    def __enter__(self) -> Reporter:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def rate(self) -> float:
        """Steps a second since the run began or was resumed."""
        return (self.done - self._first) / max(time.perf_counter() - self._begun, 1e-9)

    def step(self, done: int, loss: float) -> None:
        self.done = done
        if not self._bar.disable:
            self._bar.update(self._task, completed=done, note=f"loss {loss:.4g}, {self.rate():.0f} steps/s")

    def line(self, row: dict[str, float]) -> None:
        """A line where there is no bar."""
        if self._bar.disable:
            left = (self.total - self.done) / max(self.rate(), 1e-9)
            numbers = ", ".join(f"{k} {v:.4g}" for k, v in row.items() if k not in ("step", "seconds", "rate"))
            note = f"{self.title} {self.done}/{self.total}: {numbers}, {self.rate():.0f} steps/s, {left:.0f} s left"
            self.console.print(note, highlight=False, soft_wrap=True)

    def note(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=True)
