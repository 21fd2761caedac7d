"""Reader of Minari data sets; observations of a Box or a Dict of Boxes become flat float32 rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mac_policy.common.checks import check_choice, check_count, check_mapping, nearest_hint
from mac_policy.common.hdf5 import open_hdf5
from mac_policy.common.labels import UNSAID, Label
from mac_policy.common.reading import parse_json, read_json, reading
from mac_policy.demonstrations.checks import bound_actions
from mac_policy.demonstrations.demonstrations import Demonstrations
from mac_policy.demonstrations.episode import Completions, Episode, Floats
from mac_policy.demonstrations.minari_store import (
    COMPLETED_KEY,
    DEMONSTRATOR_KEY,
    EXECUTED_KEY,
    KIND_KEY,
    LABELS_KEY,
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
    labels: Sequence[Label] = (),
    outside: str = "clip",
    name: str | None = None,
    kind: str | None = None,
) -> Demonstrations:
    """Read a Minari data set from the local store (an id) or from its folder.

    keys: the entries of a Dict observation to keep (see `flat_keys`); None keeps all.
    select: from the flattened width to the columns to keep.
    completions: from an episode's observations to the goals completed, for sets that do not say.
    labels: to read from the infos of their names, which hold the number or the name of a class for each step; -1 and ''
        stand for a step whose class is not known (see `stored_labels`).
    outside: 'clip' or 'refuse' actions outside the data set's action space.
    kind: for sets that do not say ('human', 'scripted', ...).

    >>> demos = read_minari("D4RL/pen/human-v2")   # needs the data set   # doctest: +SKIP
    """
    folder = Path(dataset) if isinstance(dataset, Path) else _known(dataset)
    minari_set = _open(folder)
    space = check_action_space(minari_set.action_space, str(folder))
    chosen = flat_keys(minari_set.observation_space, keys)
    episodes = list(_episodes(minari_set, folder, chosen, select, completions, labels))
    bounded, _ = bound_actions(episodes, space.low, space.high, outside=outside, name=minari_set.id)
    return Demonstrations.of(
        bounded,
        name=name or minari_set.id,
        kind=minari_set.storage.metadata.get(KIND_KEY, kind or "minari"),
        location=str(folder),
    )


def stored_labels(folder: Path) -> tuple[Label, ...]:
    """The labels that a Minari data set says its episodes have."""
    found = read_metadata(folder).get(LABELS_KEY, {})
    with reading(folder, "Minari data set with labels"):
        return tuple(Label(name, classes) for name, classes in check_mapping(LABELS_KEY, found).items())


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
    known = read_metadata(folder)
    if known.get("data_format", "hdf5") == "hdf5":
        with open_hdf5(data / "main_data.hdf5", "complete Minari data set"):
            pass
    with reading(folder, "complete Minari data set"):
        found = MinariDataset(data)
        check_count("total_episodes", len(found), 0)
        return found


def read_metadata(folder: Path) -> dict[str, Any]:
    """metadata.json of a Minari folder."""
    data = folder if (folder / "metadata.json").is_file() else folder / "data"
    found = read_json(data / "metadata.json")
    if not isinstance(found, dict):
        raise ValueError(f"{data / 'metadata.json'} must hold a JSON object, not {type(found).__name__}")
    for key in (KIND_KEY, DEMONSTRATOR_KEY, "dataset_id", "data_format"):
        if not isinstance(found.get(key, ""), str):
            raise ValueError(f"{data / 'metadata.json'}: {key} must be a text, got {found[key]!r}")
    return found


def _episodes(
    minari_set: Any,
    folder: Path,
    keys: Sequence[str],
    select: Callable[[int], NDArray[np.int64]] | None,
    completions: Completions | None,
    labels: Sequence[Label],
) -> Iterator[Episode]:
    if len(minari_set) == 0:
        raise ValueError(f"{folder} holds no episodes; a data set needs at least one")
    with reading(folder, "complete Minari data set"):
        indices = minari_set.episode_indices
        metadata = minari_set.storage.get_episode_metadata(indices)
        for raw, entry in zip(minari_set.storage.get_episodes(indices), metadata, strict=True):
            yield _episode(raw, entry, keys, select, completions, labels)


def _episode(
    raw: dict[str, Any],
    metadata: dict[str, Any],
    keys: Sequence[str],
    select: Callable[[int], NDArray[np.int64]] | None,
    completions: Completions | None,
    labels: Sequence[Label],
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
        completed=_goals(metadata[COMPLETED_KEY]) if COMPLETED_KEY in metadata else tuple(computed),
        executed=None if executed is None else np.asarray(executed[1:], dtype=np.float32),
        seed=metadata.get("seed"),
        labels=_codes(raw["infos"] or {}, labels, len(raw["actions"])) if labels else None,
    )


def _codes(infos: Mapping[str, Any], labels: Sequence[Label], steps: int) -> NDArray[np.int64]:
    """(T, L): the classes of the labels in the infos of an episode of T steps. The info of a step is the one that came
    with it; infos of a data set have one more row, of the reset."""
    columns = []
    for label in labels:
        if label.name not in infos:
            raise ValueError(f"its infos have no label {label.name!r}, but {sorted(map(str, infos))}")
        rows = np.asarray(infos[label.name])
        if rows.shape not in ((steps,), (steps + 1,)):
            raise ValueError(f"label {label.name!r} has the shape {rows.shape} in an episode of {steps} steps")
        words = [word.decode() if isinstance(word, bytes) else word for word in rows[-steps:].tolist()]
        columns.append([UNSAID if word == "" else label.code(word) for word in words])
    found: NDArray[np.int64] = np.array(columns, np.int64).T
    return found


def _goals(text: Any) -> tuple[str, ...]:
    found = parse_json(text, COMPLETED_KEY)
    if not isinstance(found, list) or not all(isinstance(goal, str) for goal in found):
        raise ValueError(f"{COMPLETED_KEY} of an episode must be a list of texts, got {text!r}")
    return tuple(found)


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
