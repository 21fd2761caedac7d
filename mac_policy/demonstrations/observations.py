"""Observations of a Box or a Dict of Boxes as flat float32 rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from mac_policy.common.checks import nearest_hint
from mac_policy.demonstrations.episode import Floats


def flat_keys(space: spaces.Space[Any], keys: Sequence[str] | None = None) -> tuple[str, ...]:
    """The entries that `flatten` concatenates, in that order; ('',) for a plain Box.

    A Dict is read in its own order, which gymnasium sorts by name; an entry of a Dict in a Dict is called
    'outer/inner'. `keys` keeps some entries of a Dict, in the order given.
    """
    boxes = dict(_boxes(space))
    if keys is None or isinstance(space, spaces.Box):
        return tuple(boxes)
    for key in keys:
        if key not in boxes:
            raise ValueError(
                f"no observation entry {key!r}; there are {', '.join(map(repr, boxes))}{nearest_hint(key, boxes)}"
            )
    return tuple(keys)


def _boxes(space: spaces.Space[Any], prefix: str = "") -> Iterator[tuple[str, spaces.Box]]:
    if isinstance(space, spaces.Box):
        yield prefix, space
    elif isinstance(space, spaces.Dict):
        for key, inner in space.spaces.items():
            yield from _boxes(inner, f"{prefix}/{key}" if prefix else key)
    else:
        where = f"entry {prefix!r}" if prefix else "the observation space"
        raise ValueError(f"{where} is a {type(space).__name__}; only Box and Dict of Box can be flattened")


def flatten(values: Any, keys: Sequence[str]) -> Floats:
    """(T, D) float32 rows of the entries `keys` of an episode's observations."""
    parts = [_entry(values, key) for key in keys]
    rows = [np.asarray(part, dtype=np.float32).reshape(len(part), -1) for part in parts]
    return rows[0] if len(rows) == 1 else np.concatenate(rows, axis=1)


def _entry(values: Any, key: str) -> Any:
    for name in key.split("/") if key else ():
        values = values[name]
    return values


def check_action_space(space: spaces.Space[Any], name: str) -> spaces.Box:
    """The action space as a Box of one axis of real numbers."""
    if isinstance(space, spaces.Box) and len(space.shape) == 1 and np.issubdtype(space.dtype, np.floating):
        return space
    raise ValueError(f"{name} has the action space {space}; a Box of one axis of real numbers is needed")
