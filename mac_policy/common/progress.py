"""Progress of a long job: a bar on a terminal, otherwise a line from time to time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

T = TypeVar("T")
LINE_SECONDS = 30.0
"""Between two lines where there is no terminal."""


def with_progress(
    finished: Iterable[tuple[T, int]], total: int, done: int, console: Console | None = None, name: str = "episodes"
) -> Iterator[T]:
    """The items of `finished`, each with its share of `total`; `done` were finished before."""
    console = console or Console(stderr=True)
    show = _bar if console.is_terminal else _lines
    yield from show(finished, total, done, console, name)


def _bar(finished: Iterable[tuple[T, int]], total: int, done: int, console: Console, name: str) -> Iterator[T]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task(name, total=total, completed=done, rate="")
        for item, count in finished:
            speed = progress.tasks[0].speed
            progress.update(bar, advance=count, rate=f"{speed:.2f}/s" if speed else "")
            yield item


def _lines(finished: Iterable[tuple[T, int]], total: int, done: int, console: Console, name: str) -> Iterator[T]:
    began = said = time.monotonic()
    first = done
    for item, count in finished:
        done += count
        now = time.monotonic()
        if now - said >= LINE_SECONDS or done == total:
            left = (now - began) / (done - first) * (total - done)
            rest = f", about {left:.0f} s left" if done < total else f" in {now - began:.0f} s"
            console.print(f"{name}: {done} of {total}{rest}", highlight=False, soft_wrap=True)
            said = now
        yield item
