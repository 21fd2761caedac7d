"""Commands of an operator's device: their space, and their usable part.

No input can harm the robot or stop the program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from mac_policy.common.labels import AnyLabel, Codes
from mac_policy.filter.arrays import rows_of, truths_of
from mac_policy.filter.label_entries import COUNTS, LabelEntries
from mac_policy.filter.reading import entry_of, read_array
from mac_policy.operators.dims import OperatorDims


class CommandSpace:
    """The action space of an operator, and the commands and masks that its actions stand for.

    With fixed dims `space` is the Box of these dims, in the order in which they are listed; with None the operator
    masks the dims at each step and `space` is Dict(action=Box(n), mask=MultiBinary(n)), with an entry for each label
    of the policy (`LabelEntries`).

    ranges: the demonstrated range of each label of real values
    """

    def __init__(
        self,
        action: spaces.Box,
        operator_dims: Any,
        batch: int = 1,
        names: Sequence[str] = (),
        labels: Sequence[AnyLabel] = (),
        ranges: Sequence[tuple[float, float]] = (),
    ) -> None:
        n = action.shape[0]
        self.batch = batch
        self.dims = None if operator_dims is None else _fixed(operator_dims, n, names)
        self.labels = LabelEntries(labels, ranges)
        columns = np.arange(n) if self.dims is None else np.array(self.dims)
        dtype: Any = action.dtype.type if action.dtype is not None else np.float32
        held = spaces.Box(action.low[columns], action.high[columns], dtype=dtype)
        said, entries = self.labels.spaces, {"action", "mask", *([COUNTS] if ranges else [])}
        if self.dims is None and (taken := entries & {label.name for label in labels}):
            raise ValueError(f"a label may not be called {sorted(taken)[0]!r}: the filter's actions have that entry")
        self.space = spaces.Dict({"action": held, "mask": spaces.MultiBinary(n), **said}) if self.dims is None else held
        self._columns = columns
        self._mask = np.tile(np.isin(np.arange(n), columns), (batch, 1))

    def read(self, action: Any) -> tuple[Any, Any]:
        """An action of the batched space -> command and mask, (B, n) each; `usable_command` drops what
        cannot be read."""
        if self.dims is None:
            return rows_of(entry_of(action, "action"), self.batch), rows_of(entry_of(action, "mask"), self.batch)
        held = rows_of(action, self.batch)
        if held.shape != (self.batch, len(self._columns)) or held.dtype.kind not in "fiu":
            return None, None
        command = np.zeros(self._mask.shape, held.dtype)
        command[:, self._columns] = held
        return command, self._mask

    def said(self, action: Any) -> tuple[Codes | None, NDArray[np.bool_]]:
        """What an action of the batched space says of the labels, (B, L), None where it has no part in them; and the
        rows (B,) that say something else than a class or a finite number."""
        if self.dims is not None or not self.labels.labels or not isinstance(action, Mapping):
            return None, np.zeros(self.batch, bool)
        return self.labels.read(action, self.batch)


def _fixed(operator_dims: Any, action_dim: int, names: Sequence[str]) -> list[int]:
    rule = OperatorDims.parse(operator_dims, action_dim, names)
    if rule.fixed is None:
        raise ValueError(
            f"operator_dims = {operator_dims!r} changes from episode to episode; use operator_dims=None, with which "
            "the operator names the held dims at each step"
        )
    if not rule.fixed:
        raise ValueError(f"operator_dims = {operator_dims!r} leaves nothing to command: use the policy alone")
    return list(rule.fixed)


class Usable(NamedTuple):
    """The part of a command that can be carried out."""

    command: NDArray[Any]
    """(B, n) of the space's dtype, inside the space where `mask` is true."""
    mask: NDArray[np.bool_]
    """(B, n)"""
    invalid: NDArray[np.bool_]
    """(B,): rows with an unusable part."""
    clipped: NDArray[np.bool_]
    """(B,): rows with a finite value outside the space."""


def usable_command(command: ArrayLike, mask: ArrayLike, batch: int, space: spaces.Box) -> Usable:
    """Clip finite values to the space and drop the others from the mask.

    A command that is not (batch, n) numbers, or whose mask is not (batch, n) booleans (or zeros and ones), is dropped
    as a whole.
    """
    values, held = _numbers(command, space), truths_of(mask)
    size = (batch, space.shape[0])
    if values is None or held is None or values.shape != size or held.shape != size:
        return Usable(np.zeros(size, space.dtype), np.zeros(size, bool), np.ones(batch, bool), np.zeros(batch, bool))
    values = np.where(held, values, 0)
    outside = held > ((values >= space.low) & (values <= space.high))
    if not np.count_nonzero(outside):
        return Usable(values, held, np.zeros(batch, bool), np.zeros(batch, bool))
    bad = held & ~np.isfinite(values)
    held = held & ~bad
    return Usable(np.clip(values, space.low, space.high), held, bad.any(1), (outside & ~bad).any(1))


def _numbers(values: ArrayLike, space: spaces.Box) -> NDArray[Any] | None:
    if isinstance(values, np.ndarray) and values.dtype == space.dtype:
        return values
    found = read_array(values)
    if found is None or found.dtype == bool:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        return found.astype(space.dtype)
