"""Finished episodes as lines of a file, so that a run that was killed goes on where it stopped."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class EpisodeRecord:
    """One finished episode."""

    key: str
    """Of everything its course depends on: environment, weights, operator, settings, versions, code."""
    arm: str
    training_seed: int | None
    group: tuple[int, int]
    """First episode and number of the episodes that were stepped together with it."""
    episode: int
    seed: int
    reward: float
    completed: tuple[str, ...]
    """Tasks done, in the order they were done."""
    steps: int
    held_dims: float
    """Dims the operator held, mean over steps."""
    fallback: int
    """Steps at which the last safe action was repeated."""
    invalid: int
    """Steps at which the command was not usable."""
    fill_ms: tuple[float, ...]
    """Of each step: how long the call took that filled in the whole group's actions."""
    actions: tuple[tuple[float, ...], ...] = ()
    """(steps, n): what was executed, for the episodes that are filmed."""
    masks: tuple[str, ...] = ()
    """(steps,): which dims the operator held, as ones and zeros."""


LONGEST_KEY = 80
"""A line begins with its key: this much of it is looked at to find out whether the line is wanted."""
FIELDS = tuple(field.name for field in dataclasses.fields(EpisodeRecord))


class EpisodeStore:
    """`episodes.jsonl` in a run's folder."""

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder) / "episodes.jsonl"

    def read(self, keys: Collection[str] | None = None) -> list[EpisodeRecord]:
        """What is there, or of that what has one of these keys; a line that was cut off when a run was killed does
        not count."""
        if not self.path.exists():
            return []
        lines = self.path.read_text(errors="replace").splitlines()
        if keys is not None:
            lines = [line for line in lines if any(key in line[:LONGEST_KEY] for key in keys)]
        found = [_parse(line) for line in lines]
        return [record for record in found if record is not None and (keys is None or record.key in keys)]

    def append(self, records: Iterable[EpisodeRecord]) -> None:
        """Add finished episodes, safe against a kill at any moment."""
        lines = "".join(json.dumps(dataclasses.asdict(record), allow_nan=False) + "\n" for record in records)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab+") as file:
            if file.tell() and not _ends_line(file):
                lines = "\n" + lines
            file.write(lines.encode())
            file.flush()
            os.fsync(file.fileno())


def _ends_line(file: Any) -> bool:
    file.seek(-1, os.SEEK_END)
    return bool(file.read(1) == b"\n")


def _parse(line: str) -> EpisodeRecord | None:
    try:
        values = json.loads(line)
    except ValueError:
        return None
    if not isinstance(values, dict) or set(values) != set(FIELDS):
        return None
    return EpisodeRecord(**{name: _frozen(value) for name, value in values.items()})


def _frozen(value: Any) -> Any:
    return tuple(_frozen(entry) for entry in value) if isinstance(value, list) else value
