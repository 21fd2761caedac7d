"""The demonstrations of a task, from the first place that has them.

The places of `ORDERS['auto']`: the files in $MAC_DATA, the local Minari store, downloaded D4RL files, the Minari
remote, and last the built-in scripted demonstrations, with a warning. An explicit path comes before all.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.panel import Panel

from mac_policy.common.checks import nearest_hint
from mac_policy.common.download import Unavailable
from mac_policy.common.settings import Count, Settings
from mac_policy.demonstrations.collect import collect_into_store
from mac_policy.demonstrations.d4rl import d4rl_folder, fetch_d4rl, read_d4rl, verify
from mac_policy.demonstrations.demonstrations import Demonstrations
from mac_policy.demonstrations.minari_read import read_metadata, read_minari
from mac_policy.demonstrations.minari_store import DEMONSTRATOR_KEY, fetch_minari, local_ids, local_path, store_root
from mac_policy.demonstrations.task_data import DEFAULT_ORDER, OfficialFile, Scripted, TaskData


class ScriptedStandIn(UserWarning):
    """Scripted demonstrations stand in for human ones."""


@dataclass(frozen=True)
class DataSettings(Settings):
    """Where demonstrations are looked for and how they are read; see `load`."""

    prefix: ClassVar[str] = "data."

    source: Literal["auto", "human", "minari", "d4rl", "scripted"] = "auto"
    path: Path | None = None
    outside: Literal["clip", "refuse"] = "clip"
    episodes: Count | None = None
    order: str = DEFAULT_ORDER


def load(
    task: TaskData,
    *,
    source: str = "auto",
    path: str | Path | None = None,
    observation: str | None = None,
    outside: str = "clip",
    episodes: int | None = None,
    order: str = DEFAULT_ORDER,
    console: Console | None = None,
) -> Demonstrations:
    """The demonstrations of a task, from the first place that has them.

    source: 'auto'; 'human' (no scripted stand-in); 'minari' (the local store or the remote); 'd4rl' (the
        official file); 'scripted'.
    path: a Minari folder or a D4RL hdf5 file; nothing else is tried.
    observation: a view of the task; None keeps the observations whole.
    outside: 'clip' or 'refuse' actions outside the action space.
    episodes: number of scripted demonstrations; None takes all that are stored, or records the task's own number.
    order: of the goals within a scripted demonstration, a name of `Scripted.orders`.
    """
    asked = DataSettings(source, path, outside, episodes, order)  # type: ignore[arg-type]
    task = task.in_order(order)
    if task.order != DEFAULT_ORDER and source != "scripted":
        raise ValueError(f"data.order={order} is for scripted demonstrations: give data.source=scripted, not {source}")
    if episodes is not None and task.scripted is not None:
        task = replace(task, scripted=replace(task.scripted, episodes=episodes))
    attempts = ORDERS[source]
    select = task.select(observation)
    console = console or Console(stderr=True)
    if asked.path is not None:
        demonstrations = _read(task, asked.path.expanduser(), select, outside)
        if source == "human" and demonstrations.source.kind == "scripted":
            raise ValueError(f"data.source=human, but {path} holds scripted demonstrations")
        return _announce(demonstrations, console)
    tried: list[str] = []
    for attempt in attempts:
        where, field = PLACES[attempt]
        if getattr(task, field) is None:
            continue
        try:
            found = attempt(getattr(task, field), task, console)
        except Unavailable as reason:
            tried.append(f"{where}: {reason}")
            continue
        demonstrations = _read(task, found, select, outside)
        if attempt is _scripted:
            demonstrations = _first(demonstrations, task, found, episodes)
            if source != "scripted" and (task.minari_id or task.official):
                _warn(demonstrations, tried, console)
        return _announce(demonstrations, console)
    raise ValueError(_how_to_get(task, source, tried))


def _read(
    task: TaskData, path: Path, select: Callable[[int], NDArray[np.int64]] | None, outside: str
) -> Demonstrations:
    """The demonstrations in a Minari folder or a D4RL file."""
    if path.is_dir():
        return read_minari(
            path,
            keys=task.minari_keys,
            select=select,
            completions=task.completions,
            labels=task.labels,
            outside=outside,
            kind=task.published_kind,
        )
    if path.suffix not in (".hdf5", ".h5"):
        raise ValueError(f"data.path={path} is neither a Minari folder nor a D4RL file (.hdf5)")
    return read_d4rl(
        path,
        select=select,
        completions=task.completions,
        action_space=task.action_space,
        outside=outside,
        kind=task.published_kind or "d4rl",
    )


def _mac_data(name: str, task: TaskData, console: Console) -> Path:
    given = os.environ.get("MAC_DATA")
    if not given:
        raise Unavailable("MAC_DATA is not set")
    root, names = Path(given), []
    if task.official is not None:
        names.append(task.official.file_name)
        for folder in (root, root / "d4rl"):
            if (folder / names[0]).is_file():
                return verify(folder / names[0], task.official)
    if task.minari_id is not None:
        names.append(task.minari_id)
        if (root / task.minari_id / "data").is_dir():
            return root / task.minari_id
    raise Unavailable(f"{root} has no {' or '.join(names) or 'data of this task'}")


def _local_minari(minari_id: str, task: TaskData, console: Console) -> Path:
    found = local_path(minari_id)
    if found is None:
        hint = "" if task.scripted else nearest_hint(minari_id, local_ids())
        raise Unavailable(f"{store_root()} has no {minari_id}{hint}")
    return found


def _d4rl_cache(official: OfficialFile, task: TaskData, console: Console) -> Path:
    file = d4rl_folder() / official.file_name
    if not file.is_file():
        raise Unavailable(f"{file.parent} has no {file.name}")
    return verify(file, official)


def _remote_minari(minari_id: str, task: TaskData, console: Console) -> Path:
    console.print(f"Looking for {minari_id} on the Minari remote ...")
    return fetch_minari(minari_id)


def _official(official: OfficialFile, task: TaskData, console: Console) -> Path:
    console.print(f"Fetching {official.file_name} from D4RL ...")
    return fetch_d4rl(official)


def _scripted(scripted: Scripted, task: TaskData, console: Console) -> Path:
    found = local_path(task.scripted_id)
    if found is not None:
        return found
    console.print(f"Recording {scripted.episodes} scripted demonstrations, once ...")
    return collect_into_store(scripted, task.scripted_id, keep=True, console=console)


def _first(demonstrations: Demonstrations, task: TaskData, folder: Path, episodes: int | None) -> Demonstrations:
    """The first `episodes` of a stored set, with a warning when another version of the demonstrator recorded it."""
    renew = "`collect_demos.py task=... episodes=... overwrite=true` records it again"
    wanted = task.scripted.demonstrator if task.scripted else ""
    stored = read_metadata(folder).get(DEMONSTRATOR_KEY, "")
    if wanted != stored:
        warnings.warn(f"{task.scripted_id} was recorded by another version of the demonstrator; {renew}", stacklevel=3)
    if episodes is None or episodes == len(demonstrations):
        return demonstrations
    if episodes > len(demonstrations):
        raise ValueError(f"{task.scripted_id} holds {len(demonstrations)} episodes, not episodes={episodes}; {renew}")
    return demonstrations.select(range(episodes))


Attempt = Callable[[Any, TaskData, Console], Path]
PLACES: dict[Attempt, tuple[str, str]] = {
    _mac_data: ("$MAC_DATA", "name"),
    _local_minari: ("local Minari store", "minari_id"),
    _d4rl_cache: ("downloaded D4RL files", "official"),
    _remote_minari: ("Minari remote", "minari_id"),
    _official: ("official D4RL file", "official"),
    _scripted: ("scripted demonstrations", "scripted"),
}
"""What a place is called, and the field of the task's data that it is looked up by: None where it has nothing there."""
ORDERS: dict[str, tuple[Attempt, ...]] = {
    "auto": (_mac_data, _local_minari, _d4rl_cache, _remote_minari, _scripted),
    "human": (_mac_data, _local_minari, _d4rl_cache, _remote_minari),
    "minari": (_local_minari, _remote_minari),
    "d4rl": (_mac_data, _official),
    "scripted": (_scripted,),
}


def _announce(demonstrations: Demonstrations, console: Console) -> Demonstrations:
    source = demonstrations.source
    console.print(
        f"Demonstrations: {source.name} ({source.kind}), {source.episodes} episodes, {source.steps:,} steps, "
        f"from {source.location}",
        soft_wrap=True,
        highlight=False,
    )
    return demonstrations


def _warn(demonstrations: Demonstrations, tried: list[str], console: Console) -> None:
    source = demonstrations.source
    headline = f"No human demonstrations found: {source.name} (scripted) stands in."
    lines = [headline, "", "Tried:", *(f"  {entry}" for entry in tried)]
    lines += ["", "data.source=human refuses this; data.source=scripted requests it without the warning."]
    console.print(Panel("\n".join(lines), title="SCRIPTED DEMONSTRATIONS", style="bold yellow"))
    warnings.warn(f"{headline} Tried {'; '.join(tried)}", ScriptedStandIn, stacklevel=3)


def _how_to_get(task: TaskData, source: str, tried: list[str]) -> str:
    ways = []
    if task.minari_id is not None:
        ways.append(f"`minari download {task.minari_id}` on a machine with internet access")
    if task.official is not None:
        ways.append(f"put {task.official.url} into a folder and set MAC_DATA=<that folder>, or data.path=<that file>")
        ways.append("data.source=d4rl downloads it")
    if task.scripted is not None and source != "scripted":
        ways.append("data.source=scripted uses the built-in demonstrator instead")
    return "\n  ".join(
        [f"no demonstrations of {task.name} with data.source={source}. Tried", *tried]
        + (["How to get them:", *ways] if ways else [])
    )
