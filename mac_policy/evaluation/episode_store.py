"""Finished episodes as lines of a file, from which an interrupted run resumes."""

from __future__ import annotations

import dataclasses
import json
import os
import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mac_policy.common.checks import check_range
from mac_policy.common.files import named
from mac_policy.common.reading import checked, parse_json
from mac_policy.common.settings import Count, Natural, NonNegative, Settings


@dataclass(frozen=True)
class EpisodeRecord(Settings):
    """One finished episode."""

    key: str
    """Digest of everything that decides the episode: environment, weights, operator, settings, versions, code."""
    arm: str
    training_seed: Natural | None
    group: tuple[Natural, Count]
    """First episode and number of the episodes that are stepped together with this one."""
    episode: Natural
    seed: Natural
    reward: float
    completed: tuple[str, ...]
    """Completed goals in the order of their completion."""
    steps: Count
    held_dims: NonNegative
    """Number of dims that the operator holds, mean over steps."""
    fallback: Natural
    """Number of steps at which the filter keeps the robot standing still."""
    invalid: Natural
    """Number of steps with an unusable command."""
    fill_ms: tuple[float, ...]
    """Time of the fill-in call of each step, which serves the whole group."""
    actions: tuple[tuple[float, ...], ...] = ()
    """(steps, n): executed actions, of filmed episodes only."""
    masks: tuple[str, ...] = ()
    """(steps,): mask of the dims that the operator holds, as ones and zeros; of filmed episodes only."""
    intent: tuple[str, ...] = ()
    """What was wanted at the end of the episode, in order; () in environments without an intent."""
    changed_at: Natural | None = None
    """The step at which the intent changed."""
    followed_after: Natural | None = None
    """Steps from then until the robot had turned to what is wanted since."""
    wished: tuple[int, ...] = ()
    """(steps,): the operator's present wish, a class of the policy's first label, or -1; () without labels."""
    assumed: tuple[int, ...] = ()
    """(steps,): the class that the policy assumed, or -1; () where it is told, or has no labels."""
    believed: tuple[float, ...] = ()
    """(steps,): the policy's belief in the likeliest class of its first label; () where it is told, or has none."""
    beliefs: tuple[tuple[float, ...], ...] = ()
    """(steps, K): the policy's belief about its first label, of filmed episodes only; () without one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        first, size = self.group
        check_range(f"episode of the group {self.group}", self.episode, first, first + size - 1)


LONGEST_KEY = 80
"""Number of characters at the start of a line that are searched for its key."""
CHECK = "crc32"
"""The last entry of a line: the checksum of the others. Lines of earlier versions have none."""


class EpisodeStore:
    """The file `episodes.jsonl` in a folder."""

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder) / "episodes.jsonl"

    def read(self, keys: Collection[str] | None = None) -> list[EpisodeRecord]:
        """All stored episodes, or those with one of `keys`. Incomplete and damaged lines are left out, so that their
        episodes are rolled out again."""
        if not self.path.exists():
            return []
        lines = self.path.read_text(errors="replace").splitlines()
        found = [_parse(line) for line in lines if keys is None or any(key in line[:LONGEST_KEY] for key in keys)]
        return [record for record in found if record is not None and (keys is None or record.key in keys)]

    def append(self, records: Iterable[EpisodeRecord]) -> None:
        """Add finished episodes; an interruption at any moment leaves the stored ones readable."""
        lines = "".join(_line(dataclasses.asdict(record)) for record in records)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with self.path.open("ab+") as file:
                file.seek(max(0, file.tell() - 1))
                if file.read(1) not in (b"", b"\n"):
                    lines = "\n" + lines
                file.write(lines.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise named(error, self.path) from error


def _line(values: Mapping[str, Any]) -> str:
    text = json.dumps(values, allow_nan=False)
    return f'{text[:-1]}, "{CHECK}": "{_checksum(text)}"}}\n'


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


def _parse(line: str) -> EpisodeRecord | None:
    """The record of a line; None for one that is incomplete, damaged or of another version."""
    text, check, rest = line.rpartition(f', "{CHECK}": "')
    if check and rest != f'{_checksum(f"{text}}}")}"}}':
        return None
    try:
        values = parse_json(f"{text}}}" if check else line, "a line")
        record = checked(EpisodeRecord, values, "a line")
    except ValueError:
        return None
    return record if record.fill_ms else None
