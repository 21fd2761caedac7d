"""Checks of a policy's inputs, as arrays with one row per environment."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from mac_policy.common.checks import check_flag, is_finite
from mac_policy.common.numeric import as_numbers
from mac_policy.core.checks import check_generator

MOST_ROWS = 10_000_000
"""Of a call: more are a mistake."""


def rows(obs: ArrayLike, size: int, history: int) -> tuple[NDArray[np.float32], bool]:
    """Observations (size,), (B, size) or (B, history, size) with a batch axis, and whether that axis was added."""
    with np.errstate(over="ignore"):
        found = as_numbers("observations", obs).astype(np.float32, copy=False)
    if found.ndim == 0 or found.shape[-1] != size or found.ndim > 3:
        raise ValueError(f"observations must be ({size},) or (B, {size}), got {found.shape}")
    if found.ndim > 1 and len(found) > MOST_ROWS:
        raise ValueError(f"observations must have at most {MOST_ROWS:,} rows, got {len(found):,}")
    if found.ndim == 3 and found.shape[1] != history:
        raise ValueError(f"the policy was trained with a history of {history}, got observations {found.shape}")
    if np.isnan(found).any():
        dims = sorted(set(np.nonzero(np.isnan(found))[-1].tolist()))
        raise ValueError(f"the observation is NaN in dims {dims}")
    return (found[None], True) if found.ndim == 1 else (found, False)


def check_request(deterministic: Any, temperature: Any, generator: Any) -> None:
    """ValueError for settings of a decision that mean nothing."""
    check_flag("deterministic", deterministic)
    if temperature is not None and not (is_finite(temperature) and temperature >= 0):
        raise ValueError(f"temperature must be a finite number of at least 0, got {temperature!r}")
    if generator is not None and type(generator) is not torch.Generator:
        check_generator(generator)


class Commanded(NamedTuple):
    """A checked command, inside the action space where the mask is true."""

    command: NDArray[Any]  # (n, act)
    mask: NDArray[np.bool_]  # (n, act)

    def rows(self, chosen: NDArray[np.bool_]) -> Commanded:
        return Commanded(self.command[chosen], self.mask[chosen])


def commanded(command: ArrayLike | None, mask: ArrayLike | None, n: int, space: spaces.Box) -> Commanded | None:
    """The command of n rows, or None where nobody commands."""
    if mask is None and command is None:
        return None
    if mask is None or command is None:
        raise ValueError("command and mask go together: the mask says which dims of the command count")
    with np.errstate(over="ignore"):
        values = fitted("command", as_numbers("command", command).astype(space.dtype, copy=False), n, space)
    held = truths("mask", mask, n, space)
    bad = held & ~((values >= space.low) & (values <= space.high))
    # The bounds of an environment may differ from the policy's by a rounding error.
    if bad.any() and (bad := bad & ~np.isclose(values, np.clip(values, space.low, space.high))).any():
        row, dim = np.argwhere(bad)[0]
        if np.isnan(values[row, dim]):
            raise ValueError(f"command[{dim}] is NaN where the mask is true")
        raise ValueError(
            f"command[{dim}] = {values[row, dim]} lies outside the action space "
            f"[{space.low[dim]}, {space.high[dim]}]: clip the command first, as ActionFilter does"
        )
    return Commanded(values, held)


def truths(name: str, mask: ArrayLike, n: int, space: spaces.Box) -> NDArray[np.bool_]:
    """A mask (act,) or (n, act) of booleans, or of zeros and ones, as (n, act)."""
    found = as_numbers(name, mask)
    if found.dtype != bool and not np.isin(found, (0, 1)).all():
        raise ValueError(f"{name} must hold booleans, got {mask!r}")
    return fitted(name, found.astype(bool, copy=False), n, space)


def starts(episode_start: ArrayLike, n: int) -> NDArray[np.bool_]:
    """Booleans, or zeros and ones, (n,), or one for all rows."""
    found = as_numbers("episode_start", episode_start)
    if found.shape not in ((), (1,), (n,)) or not np.isin(found, (0, 1)).all():
        raise ValueError(f"episode_start must hold {n} booleans, got {episode_start!r}")
    return np.broadcast_to(np.atleast_1d(found).astype(bool), (n,))


def fitted(name: str, values: NDArray[Any], n: int, space: spaces.Box) -> NDArray[Any]:
    """(act,) or (n, act) values as (n, act)."""
    size = space.shape[0]
    if values.shape not in ((size,), (n, size)):
        raise ValueError(f"{name} must be ({size},) or ({n}, {size}), got {values.shape}")
    return np.broadcast_to(values, (n, size)) if values.ndim == 1 else values
