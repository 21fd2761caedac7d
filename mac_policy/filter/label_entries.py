"""The entries of the filter's actions for the labels of a policy: their spaces, and what they say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mac_policy.common.labels import UNSAID, AnyLabel, Codes, Label, categories, numbers, unsaid
from mac_policy.filter.arrays import rows_of, truths_of
from mac_policy.filter.reading import ABSENT, entry_of

Bools = NDArray[np.bool_]
COUNTS = "said"


class LabelEntries:
    """One entry for each label: for a category a Discrete, in which -1 stands for a label that is not said; for real
    values a Box of one number in the demonstrated range.

    A Box holds no NaN. Where there are P labels of real values, the entry "said", a MultiBinary(P), tells which of them
    count. An action that lacks an entry does not say that label; without "said" all numbers count that are not NaN.

    ranges: the demonstrated range of each label of real values
    """

    def __init__(self, labels: Sequence[AnyLabel], ranges: Sequence[tuple[float, float]]) -> None:
        self.labels, self.ranges = tuple(labels), tuple(ranges)
        found: dict[str, spaces.Space[Any]] = {
            label.name: spaces.Discrete(len(label.classes) + 1, start=UNSAID) for label in categories(labels)
        }
        for label, (low, high) in zip(numbers(labels), self.ranges, strict=True):
            found[label.name] = spaces.Box(low, high, (), np.float32)
        if self.ranges:
            found[COUNTS] = spaces.MultiBinary(len(self.ranges))
        self.spaces = found

    def read(self, action: Mapping[str, Any], batch: int) -> tuple[Codes, Bools]:
        """(B, L): the codes of what an action of the batched space says; and the rows (B,) that say something else than
        a class or a finite number. What cannot be read is not said; a number outside its range is clipped."""
        codes, wrong = unsaid(self.labels, batch), np.zeros(batch, bool)
        counts, readable = self._counting(action, batch)
        wrong |= not readable
        for column, label in enumerate(self.labels):
            said = entry_of(action, label.name, ABSENT)
            if said is ABSENT:
                continue
            entry = rows_of(said, batch).reshape(-1)
            number = column - len(self.labels) + len(self.ranges)
            if entry.shape != (batch,) or entry.dtype.kind not in ("iu" if isinstance(label, Label) else "iuf"):
                wrong[:] = True
                continue
            if isinstance(label, Label):
                good, wished = (entry >= UNSAID) & (entry < len(label.classes)), np.ones(batch, bool)
            else:
                good, wished = np.isfinite(entry), counts[:, number] & ~np.isnan(entry)
                entry = np.clip(entry, *self.ranges[number])
            codes[:, column] = np.where(good & wished, entry, codes[:, column])
            wrong |= wished & ~good
        return codes, wrong

    def _counting(self, action: Mapping[str, Any], batch: int) -> tuple[Bools, bool]:
        """(B, P): which numbers count, and whether the entry that tells it can be read."""
        size = batch, len(self.ranges)
        said = entry_of(action, COUNTS, ABSENT)
        if said is ABSENT or not self.ranges:
            return np.ones(size, bool), True
        found = truths_of(rows_of(said, batch))
        readable = found is not None and found.shape == size
        return (found if readable and found is not None else np.zeros(size, bool)), readable
