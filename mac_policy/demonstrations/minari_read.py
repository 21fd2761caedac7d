"""Reader of Minari data sets."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mac_policy.common.checks import nearest_hint
from mac_policy.demonstrations.checks import bound_actions
from mac_policy.demonstrations.demonstrations import Demonstrations
from mac_policy.demonstrations.episode import Completions, Episode
from mac_policy.demonstrations.minari_store import (
    COMPLETED_KEY,
    EXECUTED_KEY,
    KIND_KEY,
    local_ids,
    local_path,
    store_root,
)
from mac_policy.demonstrations.observations import check_action_space, flat_keys, flatten


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
    if COMPLETED_KEY in metadata:
        completed = tuple(json.loads(metadata[COMPLETED_KEY]))
    else:
        completed = tuple(completions(observations)) if completions else ()
    return Episode(
        observations=observations,
        actions=np.asarray(raw["actions"], dtype=np.float32),
        rewards=np.asarray(raw["rewards"], dtype=np.float32),
        terminations=np.asarray(raw["terminations"], dtype=np.bool_),
        truncations=np.asarray(raw["truncations"], dtype=np.bool_),
        completed=completed,
        executed=None if executed is None else np.asarray(executed[1:], dtype=np.float32),
        seed=metadata.get("seed"),
    )
