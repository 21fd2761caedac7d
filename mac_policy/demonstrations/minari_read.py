"""Reader of Minari data sets; observations of a Box or a Dict of Boxes become flat float32 rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mac_policy.common.checks import check_choice, nearest_hint
from mac_policy.demonstrations.checks import bound_actions
from mac_policy.demonstrations.demonstrations import Demonstrations
from mac_policy.demonstrations.episode import Completions, Episode, Floats
from mac_policy.demonstrations.minari_store import (
    COMPLETED_KEY,
    EXECUTED_KEY,
    KIND_KEY,
    local_ids,
    local_path,
    store_root,
)


def read_minari(
    dataset: str | Path,
    *,
    keys: Sequence[str] | None = None,
    select: Callable[[int], NDArray[np.int64]] | None = None,
    completions: Completions | None = None,
    outside: str = "clip",
    name: str | None = None,
    kind: str | None = None,
) -> Demonstrations:
    """Read a Minari data set from the local store (an id) or from its folder.

    keys: the entries of a Dict observation to keep (see `flat_keys`); None keeps all.
    select: from the flattened width to the columns to keep.
    completions: from an episode's observations to the goals completed, for sets that do not say.
    outside: 'clip' or 'refuse' actions outside the data set's action space.
    kind: for sets that do not say ('human', 'scripted', ...).

    >>> demos = read_minari("D4RL/pen/human-v2")   # needs the data set   # doctest: +SKIP
    """
    folder = Path(dataset) if isinstance(dataset, Path) else _known(dataset)
    minari_set = _open(folder)
    space = check_action_space(minari_set.action_space, str(folder))
    chosen = flat_keys(minari_set.observation_space, keys)
    episodes = list(_episodes(minari_set, folder, chosen, select, completions))
    bounded, _ = bound_actions(episodes, space.low, space.high, outside=outside, name=minari_set.id)
    return Demonstrations.of(
        bounded,
        name=name or minari_set.id,
        kind=minari_set.storage.metadata.get(KIND_KEY, kind or "minari"),
        location=str(folder),
    )


def action_space(folder: Path) -> spaces.Box:
    """The action space that a Minari data set was recorded with."""
    return check_action_space(_open(folder).action_space, str(folder))


def _known(dataset_id: str) -> Path:
    folder = local_path(dataset_id)
    if folder is None:
        ids = local_ids()
        listed = f"it holds {', '.join(ids)}" if ids else "it is empty"
        raise ValueError(
            f"no Minari data set {dataset_id!r} in the local store {store_root()}; {listed}"
            f"{nearest_hint(dataset_id, ids)}. `minari download {dataset_id}` fetches a published one"
        )
    return folder


def _open(folder: Path) -> Any:
    from minari import MinariDataset

    data = folder if (folder / "metadata.json").is_file() else folder / "data"
    if not (data / "metadata.json").is_file():
        raise ValueError(f"{folder} is no Minari data set: it has no data/metadata.json")
    try:
        return MinariDataset(data)
    except (KeyError, ValueError, AssertionError, ImportError, OSError) as error:
        raise ValueError(f"{folder} is no complete Minari data set: {error}") from error


def _episodes(
    minari_set: Any,
    folder: Path,
    keys: Sequence[str],
    select: Callable[[int], NDArray[np.int64]] | None,
    completions: Completions | None,
) -> Iterator[Episode]:
    if len(minari_set) == 0:
        raise ValueError(f"{folder} holds no episodes; a data set needs at least one")
    indices = minari_set.episode_indices
    try:
        metadata = minari_set.storage.get_episode_metadata(indices)
        for raw, entry in zip(minari_set.storage.get_episodes(indices), metadata, strict=True):
            yield _episode(raw, entry, keys, select, completions)
    except (OSError, KeyError) as error:
        raise ValueError(f"{folder} cannot be read; it may be truncated: {error}") from error


def _episode(
    raw: dict[str, Any],
    metadata: dict[str, Any],
    keys: Sequence[str],
    select: Callable[[int], NDArray[np.int64]] | None,
    completions: Completions | None,
) -> Episode:
    observations = flatten(raw["observations"], keys)
    if select is not None:
        observations = np.ascontiguousarray(observations[:, select(observations.shape[1])])
    executed = (raw["infos"] or {}).get(EXECUTED_KEY)
    computed = completions(observations) if completions and COMPLETED_KEY not in metadata else ()
    return Episode(
        observations=observations,
        actions=np.asarray(raw["actions"], dtype=np.float32),
        rewards=np.asarray(raw["rewards"], dtype=np.float32),
        terminations=np.asarray(raw["terminations"], dtype=np.bool_),
        truncations=np.asarray(raw["truncations"], dtype=np.bool_),
        completed=tuple(json.loads(metadata[COMPLETED_KEY]) if COMPLETED_KEY in metadata else computed),
        executed=None if executed is None else np.asarray(executed[1:], dtype=np.float32),
        seed=metadata.get("seed"),
    )


def flat_keys(space: spaces.Space[Any], keys: Sequence[str] | None = None) -> tuple[str, ...]:
    """The entries that `flatten` concatenates, in that order; ('',) for a plain Box.

    A Dict is read in its own order, which gymnasium sorts by name; an entry of a Dict in a Dict is called
    'outer/inner'. `keys` keeps some entries of a Dict, in the order given.
    """
    boxes = dict(_boxes(space))
    if keys is None or isinstance(space, spaces.Box):
        return tuple(boxes)
    return tuple(check_choice("observation entry", key, boxes) for key in keys)


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
