"""A smooth hand-over: filled-in dims do not jump when the operator takes or releases dims."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mac_policy.common.numeric import as_numbers


class HandOver:
    """Limits the filled-in dims of a row after its mask changed: each moves at most `max_change` per step from the
    previous action until it has caught up with the policy. Neither commands nor standing still are limited."""

    def __init__(self, max_change: ArrayLike, batch: int, action_dim: int) -> None:
        """max_change: one number or (n,), in units of the action."""
        limit = as_numbers("max_change", max_change)
        if limit.shape not in ((), (action_dim,)) or limit.dtype.kind not in "iuf" or not (limit > 0).all():
            raise ValueError(f"max_change must be a number above 0 or {action_dim} of them, got {max_change!r}")
        self.limit = limit
        self._mask = np.zeros((batch, action_dim), bool)
        self._behind = np.zeros((batch, action_dim), bool)
        self._fresh = np.ones((batch, 1), bool)

    def reset(self, rows: NDArray[np.bool_]) -> None:
        """Begin an episode in the rows (B,) that are true: their first action has no predecessor."""
        self._behind = self._behind & ~rows[:, None]
        self._fresh = self._fresh | rows[:, None]

    def __call__(
        self, wanted: NDArray[Any], last: NDArray[Any], mask: NDArray[np.bool_], fallback: NDArray[np.bool_]
    ) -> NDArray[Any]:
        """(B, n) wanted and last actions; rows in fallback (B,) stand still at once and catch up later."""
        changed = ~self._fresh & (mask != self._mask).any(1, keepdims=True)
        behind = self._behind | changed  # commands are put in afterwards
        self._mask, self._fresh = mask, np.zeros_like(self._fresh)
        limit = self.limit.astype(wanted.dtype)
        moved = np.clip(wanted, last - limit, last + limit)
        self._behind = behind & ~((moved == wanted) & ~fallback[:, None])
        return np.where(behind & ~fallback[:, None], moved, wanted)
