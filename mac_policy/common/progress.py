"""Progress of a long job: a bar on a terminal, elsewhere a line every half minute."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

T = TypeVar("T")
LINE_SECONDS = 30.0
"""Least time between two lines where there is no terminal."""


def with_progress(
    finished: Iterable[tuple[T, int]], total: int, done: int, console: Console | None = None, name: str = "episodes"
) -> Iterator[T]:
    """The items of `finished`, which come with their counts towards `total`; `done` is the count at the start."""
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
    began = printed = time.monotonic()
    first = done
    for item, count in finished:
        done += count
        now = time.monotonic()
        if now - printed >= LINE_SECONDS or done == total:
            left = (now - began) / (done - first) * (total - done)
            rest = f", about {left:.0f} s left" if done < total else f" in {now - began:.0f} s"
            console.print(f"{name}: {done} of {total}{rest}", highlight=False, soft_wrap=True)
            printed = now
        yield item
