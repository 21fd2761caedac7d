"""What a policy is handed, as checked arrays with one row for each environment."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray


def rows(obs: ArrayLike, size: int, history: int) -> tuple[NDArray[np.float32], bool]:
    """(size,), (B, size) or (B, history, size) observations, and whether there was a single one without an axis."""
    try:
        with np.errstate(over="ignore"):
            found = np.asarray(obs, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise ValueError(f"observations must be arrays of numbers, got {type(obs).__name__}: {error}") from error
    if found.ndim == 0 or found.shape[-1] != size or found.ndim > 3:
        raise ValueError(f"observations must be ({size},) or (B, {size}), got {found.shape}")
    if found.ndim == 3 and found.shape[1] != history:
        raise ValueError(f"the policy was trained with a history of {history}, got observations {found.shape}")
    if np.isnan(found).any():
        dims = sorted(set(np.nonzero(np.isnan(found))[-1].tolist()))
        raise ValueError(f"the observation is NaN in dims {dims}")
    return (found[None], True) if found.ndim == 1 else (found, False)


def commanded(
    given: ArrayLike | None, given_mask: ArrayLike | None, n: int, space: spaces.Box
) -> tuple[NDArray[Any] | None, NDArray[np.bool_] | None]:
    """What is given and where, (n, act) each, or None where nothing is."""
    if given_mask is None and given is None:
        return None, None
    if given_mask is None or given is None:
        raise ValueError("given and given_mask go together: one says what is commanded, the other where")
    with np.errstate(over="ignore"):
        values = np.asarray(given, dtype=space.dtype)
    mask, values = fitted("given_mask", truths("given_mask", given_mask), n, space), fitted("given", values, n, space)
    inside = (values >= space.low) & (values <= space.high)
    if not inside.all() and (bad := mask & ~inside).any():
        row, dim = np.argwhere(bad)[0]
        if np.isnan(values[row, dim]):
            raise ValueError(f"given[{dim}] is NaN but given_mask says that it is commanded")
        raise ValueError(
            f"given[{dim}] = {values[row, dim]} lies outside the action space "
            f"[{space.low[dim]}, {space.high[dim]}]: clip what is commanded first"
        )
    return values, mask


def truths(name: str, mask: ArrayLike) -> NDArray[np.bool_]:
    """A mask of booleans, or of zeros and ones."""
    found = np.asarray(mask)
    if found.dtype != bool and not np.isin(found, (0, 1)).all():
        raise ValueError(f"{name} must hold booleans, got {mask!r}")
    return found.astype(bool, copy=False)


def fitted(name: str, values: NDArray[Any], n: int, space: spaces.Box) -> NDArray[Any]:
    """(act,) or (n, act) values as (n, act)."""
    size = space.shape[0]
    if values.shape not in ((size,), (n, size)):
        raise ValueError(f"{name} must be ({size},) or ({n}, {size}), got {values.shape}")
    return np.broadcast_to(values, (n, size)) if values.ndim == 1 else values
