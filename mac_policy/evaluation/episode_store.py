"""Finished episodes as lines of a file, from which an interrupted run resumes."""

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
    """Digest of everything that decides the episode: environment, weights, operator, settings, versions, code."""
    arm: str
    training_seed: int | None
    group: tuple[int, int]
    """First episode and number of the episodes that are stepped together with this one."""
    episode: int
    seed: int
    reward: float
    completed: tuple[str, ...]
    """Completed goals in the order of their completion."""
    steps: int
    held_dims: float
    """Number of dims that the operator holds, mean over steps."""
    fallback: int
    """Number of steps at which the filter keeps the robot standing still."""
    invalid: int
    """Number of steps with an unusable command."""
    fill_ms: tuple[float, ...]
    """Time of the fill-in call of each step, which serves the whole group."""
    actions: tuple[tuple[float, ...], ...] = ()
    """(steps, n): executed actions, of filmed episodes only."""
    masks: tuple[str, ...] = ()
    """(steps,): mask of the dims that the operator holds, as ones and zeros; of filmed episodes only."""
    intent: tuple[str, ...] = ()
    """What was wanted at the end of the episode, in order; () in environments without an intent."""
    changed_at: int | None = None
    """The step at which the intent changed."""
    followed_after: int | None = None
    """Steps from then until the robot had turned to what is wanted since."""
    wished: tuple[int, ...] = ()
    """(steps,): the operator's present wish, a class of the policy's first label, or -1; () without labels."""
    assumed: tuple[int, ...] = ()
    """(steps,): the class that the policy assumed, or -1; () where it is told, or has no labels."""

    beliefs: tuple[tuple[float, ...], ...] = ()
    """(steps, K): the policy's belief about its first label, of filmed episodes only; () without one."""


LONGEST_KEY = 80
"""Number of characters at the start of a line that are searched for its key."""
FIELDS = {field.name: field.default is dataclasses.MISSING for field in dataclasses.fields(EpisodeRecord)}
"""The fields of a record, and whether each is needed."""


class EpisodeStore:
    """The file `episodes.jsonl` in a folder."""

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder) / "episodes.jsonl"

    def read(self, keys: Collection[str] | None = None) -> list[EpisodeRecord]:
        """All stored episodes, or those with one of `keys`. Incomplete lines of an interrupted run are left out."""
        if not self.path.exists():
            return []
        lines = self.path.read_text(errors="replace").splitlines()
        found = [_parse(line) for line in lines if keys is None or any(key in line[:LONGEST_KEY] for key in keys)]
        return [record for record in found if record is not None and (keys is None or record.key in keys)]

    def append(self, records: Iterable[EpisodeRecord]) -> None:
        """Add finished episodes; an interruption at any moment leaves the stored ones readable."""
        lines = "".join(json.dumps(dataclasses.asdict(record), allow_nan=False) + "\n" for record in records)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab+") as file:
            file.seek(max(0, file.tell() - 1))
            if file.read(1) not in (b"", b"\n"):
                lines = "\n" + lines
            file.write(lines.encode())
            file.flush()
            os.fsync(file.fileno())


def _parse(line: str) -> EpisodeRecord | None:
    try:
        values = json.loads(line)
    except ValueError:
        return None
    if not isinstance(values, dict) or not {name for name, needed in FIELDS.items() if needed} <= {*values} <= {
        *FIELDS
    }:
        return None
    return EpisodeRecord(**{name: _frozen(value) for name, value in values.items()})


def _frozen(value: Any) -> Any:
    return tuple(_frozen(entry) for entry in value) if isinstance(value, list) else value
