"""D4RL hdf5 files, flat arrays with flags at the ends of episodes: download and reader."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from rich.console import Console

from mac_policy.common.checks import check_choice
from mac_policy.common.digest import file_sha256
from mac_policy.common.download import CONNECT_SECONDS, Download, retrieve
from mac_policy.common.hdf5 import open_hdf5
from mac_policy.demonstrations.checks import bound_actions
from mac_policy.demonstrations.demonstrations import Demonstrations
from mac_policy.demonstrations.episode import Bools, Completions, Episode, Floats, Indices
from mac_policy.demonstrations.task_data import OfficialFile

REQUIRED = ("observations", "actions")


class Columns(NamedTuple):
    """The arrays of a D4RL file, (S, ...) each."""

    observations: Floats
    actions: Floats
    rewards: Floats
    terminals: Bools
    timeouts: Bools


def read_d4rl(
    path: str | Path,
    *,
    select: Callable[[int], NDArray[np.int64]] | None = None,
    ends: str = "auto",
    completions: Completions | None = None,
    action_space: spaces.Box | None = None,
    outside: str = "clip",
    name: str | None = None,
    kind: str = "d4rl",
) -> Demonstrations:
    """Read a D4RL hdf5 file.

    select: from the width of the file's observations to the columns to keep; goal columns are dropped here.
    ends: 'flags' ends an episode where terminals or timeouts are set, 'jumps' where the observation jumps
        (see `jump_ends`); 'auto' uses the flags if any is set, else the jumps. The steps after the last end are
        an episode too: files are cut at any step.
    completions: from an episode's selected observations to the goals completed.
    outside: 'clip' or 'refuse' actions outside `action_space`, where one is given.
    """
    path = Path(path)
    columns = _read_columns(path)
    stops = _episode_ends(columns, ends, path)
    if select is not None:
        keep = select(columns.observations.shape[1])
        columns = columns._replace(observations=np.ascontiguousarray(columns.observations[:, keep]))
    starts = np.concatenate([[0], stops[:-1]])
    episodes = tuple(_episode(columns, a, b, completions) for a, b in zip(starts, stops, strict=True))
    if action_space is not None:
        low, high = action_space.low, action_space.high
        episodes, _ = bound_actions(episodes, low, high, outside=outside, name=str(path))
    return Demonstrations.of(episodes, name=name or path.stem, kind=kind, location=str(path))


def _read_columns(path: Path) -> Columns:
    if not path.is_file():
        raise ValueError(f"no file at {path}")
    with open_hdf5(path, "hdf5 file, so that it must be downloaded again") as file:
        arrays = _arrays(file, path)
    steps = len(arrays["actions"])
    for key, values in arrays.items():
        wanted = 2 if key in REQUIRED else 1
        if values.ndim != wanted or len(values) != steps:
            raise ValueError(
                f"{path}: {key} has shape {values.shape}, expected {wanted} axes, the first as "
                f"long as actions ({steps})"
            )
    if steps == 0:
        raise ValueError(f"{path} holds no steps; a data set needs at least one episode")
    return Columns(**arrays)


def _arrays(file: Any, path: Path) -> dict[str, Any]:
    for key in REQUIRED:
        if not isinstance(file.get(key), h5py.Dataset):
            raise ValueError(f"{path} has no array {key!r}; it holds {', '.join(sorted(file)) or 'nothing'}")
    arrays: dict[str, Any] = {key: _numbers(file, key, np.float32, path) for key in REQUIRED}
    for key, dtype in (("rewards", np.float32), ("terminals", np.bool_), ("timeouts", np.bool_)):
        absent = np.zeros(len(arrays["actions"]), dtype)
        arrays[key] = _numbers(file, key, dtype, path) if key in file else absent
    return arrays


def _numbers(file: Any, key: str, dtype: type, path: Path) -> NDArray[Any]:
    entry = file[key]
    if not isinstance(entry, h5py.Dataset) or entry.ndim == 0:
        raise ValueError(f"{path}: {key} is not an array")
    if entry.dtype.kind not in "biuf":
        raise ValueError(f"{path}: {key} is not an array of numbers but of {entry.dtype}")
    return np.asarray(entry[()], dtype)


def _episode_ends(columns: Columns, ends: str, path: Path) -> Indices:
    """(E,) one past the last step of each episode."""
    check_choice("way to find episode ends", ends, ("auto", "flags", "jumps"))
    flags = np.flatnonzero(columns.terminals | columns.timeouts) + 1
    if ends == "flags" and len(flags) == 0:
        raise ValueError(f"{path} sets neither terminals nor timeouts; use ends=jumps")
    found = flags if ends == "flags" or (ends == "auto" and len(flags)) else jump_ends(columns.observations)
    steps = len(columns.actions)
    return found if len(found) and found[-1] == steps else np.append(found, steps)


def jump_ends(observations: Floats, ratio: float = 10.0) -> Indices:
    """(E-1,) one past each end but the last: the steps whose change of observation exceeds `ratio` times the 90%
    quantile of all changes.

    In the kitchen files a reset moves the robot by 3 rad, and no step by 0.2.
    """
    if len(observations) < 2:
        return np.zeros(0, dtype=np.int64)
    change = np.linalg.norm(np.diff(observations, axis=0), axis=1)
    typical = np.quantile(change, 0.9)
    return np.flatnonzero(change > ratio * typical).astype(np.int64) + 1 if typical > 0 else np.zeros(0, np.int64)


def _episode(columns: Columns, start: int, stop: int, completions: Completions | None) -> Episode:
    """Steps start..stop; D4RL has no observation after the last action, so the last one is repeated."""
    rows = slice(start, stop)
    recorded = columns.observations
    observations = np.concatenate([recorded[rows], recorded[stop - 1 : stop]])
    truncations = columns.timeouts[rows].copy()
    truncations[-1] |= not columns.terminals[stop - 1]
    return Episode(
        observations=observations,
        actions=columns.actions[rows],
        rewards=columns.rewards[rows],
        terminations=columns.terminals[rows],
        truncations=truncations,
        completed=tuple(completions(observations)) if completions else (),
    )


def d4rl_folder() -> Path:
    """Where the d4rl package keeps its files: $D4RL_DATASET_DIR, else ~/.d4rl/datasets."""
    given = os.environ.get("D4RL_DATASET_DIR")
    return Path(given) if given else Path.home() / ".d4rl" / "datasets"


def official_url(official: OfficialFile) -> str:
    """The file's address: from the registry of the d4rl package where installed, else the constant."""
    if importlib.util.find_spec("d4rl") is None:
        return official.url
    try:
        from d4rl.infos import DATASET_URLS
    except Exception:  # d4rl pulls in simulators that may fail to import in many ways
        return official.url
    return str(DATASET_URLS.get(official.d4rl_id, official.url))


def verify(path: Path, official: OfficialFile) -> Path:
    """`path` if its bytes are the official file's."""
    found = file_sha256(path)
    if found != official.sha256:
        raise ValueError(
            f"{path} is not the official {official.d4rl_id} file: its sha256 is {found}, expected "
            f"{official.sha256}; it may be truncated: remove it and fetch it again"
        )
    return path


def fetch_d4rl(official: OfficialFile, *, seconds: float | None = None) -> Path:
    """The official file, downloaded once and checked by its sha256."""
    target = d4rl_folder() / official.file_name
    if not target.is_file():
        download = Download(official_url(official), official.file_name, f"sha256:{official.sha256}")
        retrieve(download, target.parent, Console(stderr=True), seconds=seconds or CONNECT_SECONDS)
    return verify(target, official)
