"""Data sets of rows with N variables each, in training, validation and test splits."""

from __future__ import annotations

import bisect
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mac_policy.common.checks import check_count
from mac_policy.common.digest import file_sha256


class Rows(Protocol):
    """Rows (S, N) in memory or in a memory-mapped file: a numpy array or `JoinedRows`."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any, /) -> NDArray[Any]: ...


class JoinedRows:
    """Concatenate arrays of rows without a copy.

    >>> import numpy as np
    >>> from mac_policy.rows.sets.row_set import JoinedRows
    >>> JoinedRows([np.zeros((2, 3)), np.ones((4, 3))])[np.array([0, 5])]
    array([[0., 0., 0.],
           [1., 1., 1.]])
    """

    def __init__(self, parts: Sequence[NDArray[Any]]) -> None:
        self.parts = tuple(parts)
        self.ends = np.cumsum([len(part) for part in self.parts])

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __getitem__(self, index: Any) -> NDArray[Any]:
        rows = np.arange(len(self))[index] if isinstance(index, slice) else np.asarray(index)
        part = np.searchsorted(self.ends, rows, side="right")
        out = np.empty((len(rows), *self.parts[0].shape[1:]), self.parts[0].dtype)
        for number in np.unique(part):
            here = part == number
            out[here] = self.parts[number][rows[here] - (self.ends[number] - len(self.parts[number]))]
        return out

    def head(self, count: int) -> JoinedRows:
        """The first `count` rows."""
        last = bisect.bisect_left(self.ends.tolist(), count)
        kept = [*self.parts[:last], self.parts[last][: count - (self.ends[last] - len(self.parts[last]))]]
        return JoinedRows(kept)


@dataclass(frozen=True)
class RowSet:
    """A data set of rows in three splits.

    shape: the shape of one row, (N,) or (channels, height, width); variables are numbered in the order of
        `reshape(-1)`
    levels: values are 0..levels-1; None for real numbers
    note: the differences between the files and the published data set, '' if there are none
    available: for each split that is limited to its first rows, the number of rows without the limit
    """

    name: str
    train: Rows
    valid: Rows
    test: Rows
    shape: tuple[int, ...]
    levels: int | None
    location: str
    sha256: str
    note: str = ""
    available: Mapping[str, int] = field(default_factory=dict)

    @property
    def num_variables(self) -> int:
        return math.prod(self.shape)

    def limited(self, train: int | None = None, valid: int | None = None, test: int | None = None) -> RowSet:
        """A copy with the first rows of each split. `full_note` states the limits."""
        found = self
        for split, count in (("train", train), ("valid", valid), ("test", test)):
            rows: Rows = getattr(self, split)
            if count is None or check_count(f"{split} rows", count) >= len(rows):
                continue
            first: Any = rows.head(count) if hasattr(rows, "head") else rows[:count]
            available = {split: len(rows), **found.available}
            found = replace(found, **{split: first, "available": available})
        return found

    @property
    def full_note(self) -> str:
        """The note and the limits of all splits."""
        return self.note_of("train", "valid", "test")

    def note_of(self, *splits: str) -> str:
        """The note and the limits of these splits."""
        limits = [
            f"first {len(getattr(self, split)):,} of {self.available[split]:,} {split} rows"
            for split in splits
            if split in self.available
        ]
        return "; ".join([self.note, *limits] if self.note else limits)

    def record(self) -> dict[str, Any]:
        """The record of the data set in results.json."""
        return {
            "name": self.name,
            "source": self.location,
            "sha256": self.sha256,
            "note": self.full_note,
            "train": len(self.train),
            "valid": len(self.valid),
            "test": len(self.test),
            "variables": self.num_variables,
        }

    def __str__(self) -> str:
        counts = f"{len(self.train):,} + {len(self.valid):,} + {len(self.test):,} rows of {self.num_variables}"
        return (
            f"{self.name}: {counts} variables{f' ({self.full_note})' if self.full_note else ''}, from {self.location}"
        )


def files_sha256(paths: Sequence[Path]) -> str:
    """The sha256 of one file, or the sha256 over the digests of several files in this order.

    Identical files raise a ValueError, because a copied part would put held-out rows into the training split.
    """
    each = [file_sha256(path) for path in paths]
    for path, digest in zip(paths, each, strict=True):
        first = paths[each.index(digest)]
        if first != path:
            raise ValueError(f"{path} is a copy of {first.name}: another part of the data set is expected")
    return each[0] if len(each) == 1 else hashlib.sha256("\n".join(each).encode()).hexdigest()


def hold_out(rows: Rows, share: float) -> tuple[Rows, Rows]:
    """Split off the last `share` of the rows, at least one: (the remaining rows, the held-out rows)."""
    kept = max(1, len(rows) - max(1, round(share * len(rows))))
    if isinstance(rows, JoinedRows):
        return rows.head(kept), rows[kept:]
    return rows[:kept], rows[kept:]
