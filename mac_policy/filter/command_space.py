"""The action space of an operator: a Box of the dims always held, or whole actions with a mask at each step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mac_policy.operators.dims import OperatorDims


class CommandSpace:
    """The action space that an operator sees, and the commands and masks that its actions stand for.

    With fixed dims `space` is the Box of these dims, in the order in which they are listed; with None it is
    Dict(action=Box(n), mask=MultiBinary(n)).
    """

    def __init__(self, action: spaces.Box, operator_dims: Any, batch: int = 1) -> None:
        self.action, self.batch = action, batch
        self.dims: list[int] | None = None
        self.space: spaces.Box | spaces.Dict
        if operator_dims is None:
            self.space = spaces.Dict(
                action=spaces.Box(action.low, action.high, action.shape, _type(action)),
                mask=spaces.MultiBinary(action.shape[0]),
            )
            return
        self.dims = _fixed(operator_dims, action.shape[0])
        low, high = action.low[self.dims], action.high[self.dims]
        self.space = spaces.Box(low, high, (len(self.dims),), _type(action))
        self._columns = np.array(self.dims)
        self._mask = np.tile(np.isin(np.arange(action.shape[0]), self.dims), (batch, 1))

    def read(self, action: Any) -> tuple[Any, Any]:
        """An action of the batched space -> command and mask, (B, n) each; unreadable input is passed on for `Filler`
        to refuse."""
        if self.dims is None:
            if not isinstance(action, Mapping):
                return None, None
            return _rows(action.get("action"), self.batch), _rows(action.get("mask"), self.batch)
        held = _rows(action, self.batch)
        if held.shape != (self.batch, len(self.dims)) or held.dtype.kind not in "fiu":
            return None, None
        command = np.zeros(self._mask.shape, held.dtype)
        command[:, self._columns] = held
        return command, self._mask


def _rows(entry: Any, batch: int) -> NDArray[Any]:
    """As an array with a batch axis, which the action of a single environment lacks."""
    try:
        found = np.asarray(entry)
    except (TypeError, ValueError, RuntimeError):  # lists of different lengths, tensors elsewhere or with a gradient
        return np.empty(0)
    return found[None] if batch == 1 and found.ndim == 1 else found


def _fixed(operator_dims: Any, action_dim: int) -> list[int]:
    rule = OperatorDims.parse(operator_dims, action_dim)
    if rule.fixed is None:
        raise ValueError(
            f"operator_dims = {operator_dims!r} changes from episode to episode; use operator_dims=None, with which "
            "the operator names the held dims at each step"
        )
    if not rule.fixed:
        raise ValueError(f"operator_dims = {operator_dims!r} leaves nothing to command: use the policy alone")
    return list(rule.fixed)


def _type(box: spaces.Box) -> Any:
    return box.dtype.type if box.dtype is not None else np.float32
