"""The demonstrations of a task, from the first place that has them.

The places of `ORDERS['auto']`: the files in $MAC_DATA, the local Minari store, downloaded D4RL files, the Minari
remote, and last the built-in scripted demonstrations, with a warning. An explicit path comes before all.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.panel import Panel

from mac_policy.common.checks import check_choice, check_count, nearest_hint
from mac_policy.common.download import Unavailable
from mac_policy.demonstrations.checks import bound_actions
from mac_policy.demonstrations.collect import collect_into_store
from mac_policy.demonstrations.d4rl import read_d4rl
from mac_policy.demonstrations.demonstrations import Demonstrations
from mac_policy.demonstrations.minari_read import read_minari
from mac_policy.demonstrations.minari_store import DEMONSTRATOR_KEY, local_ids, local_path, store_root
from mac_policy.demonstrations.remote import d4rl_folder, fetch_d4rl, fetch_minari, verify
from mac_policy.demonstrations.task_data import DEFAULT_ORDER, TaskData

HDF5 = (".hdf5", ".h5")


class ScriptedStandIn(UserWarning):
    """Scripted demonstrations stand in for human ones."""


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
    task = task.in_order(order)
    if task.order != DEFAULT_ORDER and source != "scripted":
        raise ValueError(f"data.order={order} is for scripted demonstrations: give data.source=scripted, not {source}")
    if episodes is not None and task.scripted is not None:
        task = replace(task, scripted=replace(task.scripted, episodes=check_count("episodes", episodes)))
    attempts = ORDERS[check_choice("data.source", source, ORDERS)]
    read = _Reader(task, observation, outside)
    console = console or Console(stderr=True)
    if path is not None:
        demonstrations = read(Path(path).expanduser())
        if source == "human" and demonstrations.source.kind == "scripted":
            raise ValueError(f"data.source=human, but {path} holds scripted demonstrations")
        return _announce(demonstrations, console)
    tried: list[str] = []
    for attempt in attempts:
        try:
            found = attempt(task, console)
        except _NotOffered:
            continue
        except Unavailable as reason:
            tried.append(f"{WHERE[attempt]}: {reason}")
            continue
        demonstrations = read(found)
        if attempt is _scripted:
            demonstrations = _first(demonstrations, task, found, episodes)
        if attempt is _scripted and source != "scripted" and task.has_published:
            _warn(demonstrations, tried, console)
        return _announce(demonstrations, console)
    raise ValueError(_how_to_get(task, source, tried))


class _NotOffered(Unavailable):
    """The task has nothing of this kind; the message is not shown."""


class _Reader:
    """Reads a folder or a file as the task data say."""

    def __init__(self, task: TaskData, observation: str | None, outside: str) -> None:
        self.task, self.outside = task, outside
        self.select = task.select(observation)

    def __call__(self, path: Path) -> Demonstrations:
        task = self.task
        if path.is_dir():
            return read_minari(
                path,
                keys=task.minari_keys,
                select=self.select,
                completions=task.completions,
                outside=self.outside,
                kind=task.published_kind,
            )
        if path.suffix not in HDF5:
            raise ValueError(f"data.path={path} is neither a Minari folder nor a D4RL file (.hdf5)")
        kind = task.published_kind or "d4rl"
        demos = read_d4rl(path, select=self.select, completions=task.completions, kind=kind)
        if task.action_space is None:
            return demos
        low, high = task.action_space.low, task.action_space.high
        episodes, clipped = bound_actions(demos.episodes, low, high, outside=self.outside, name=str(path))
        if not clipped:
            return demos
        return Demonstrations.of(episodes, name=demos.source.name, kind=kind, location=str(path))


def _mac_data(task: TaskData, console: Console) -> Path:
    given = os.environ.get("MAC_DATA")
    if not given:
        raise Unavailable("MAC_DATA is not set")
    names = []
    if task.official is not None:
        name = task.official.file_name
        names.append(name)
        for folder in (Path(given), Path(given) / "d4rl"):
            if (folder / name).is_file():
                return verify(folder / name, task.official)
    if task.minari_id is not None:
        names.append(task.minari_id)
        if (Path(given) / task.minari_id / "data").is_dir():
            return Path(given) / task.minari_id
    raise Unavailable(f"{given} has no {' or '.join(names) or 'data of this task'}")


def _local_minari(task: TaskData, console: Console) -> Path:
    if task.minari_id is None:
        raise _NotOffered("the task has no published Minari data set")
    found = local_path(task.minari_id)
    if found is None:
        hint = "" if task.scripted else nearest_hint(task.minari_id, local_ids())
        raise Unavailable(f"{store_root()} has no {task.minari_id}{hint}")
    return found


def _d4rl_cache(task: TaskData, console: Console) -> Path:
    if task.official is None:
        raise _NotOffered("the task has no official D4RL file")
    file = d4rl_folder() / task.official.file_name
    if not file.is_file():
        raise Unavailable(f"{file.parent} has no {file.name}")
    return verify(file, task.official)


def _remote_minari(task: TaskData, console: Console) -> Path:
    if task.minari_id is None:
        raise _NotOffered("the task has no published Minari data set")
    console.print(f"Looking for {task.minari_id} on the Minari remote ...")
    return fetch_minari(task.minari_id)


def _official(task: TaskData, console: Console) -> Path:
    if task.official is None:
        raise _NotOffered("the task has no official D4RL file")
    console.print(f"Fetching {task.official.file_name} from D4RL ...")
    return fetch_d4rl(task.official)


def _scripted(task: TaskData, console: Console) -> Path:
    if task.scripted is None:
        raise _NotOffered("the task has no scripted demonstrator")
    found = local_path(task.scripted_id)
    if found is not None:
        return found
    console.print(f"Recording {task.scripted.episodes} scripted demonstrations, once ...")
    return collect_into_store(task.scripted, task.scripted_id, console=console)


def _first(demonstrations: Demonstrations, task: TaskData, folder: Path, episodes: int | None) -> Demonstrations:
    """The first `episodes` of a stored set, with a warning when another version of the demonstrator recorded it."""
    renew = "`collect_demos.py task=... episodes=... overwrite=true` records it again"
    wanted = task.scripted.demonstrator if task.scripted else ""
    stored = json.loads((folder / "data" / "metadata.json").read_text()).get(DEMONSTRATOR_KEY, "")
    if wanted != stored:
        warnings.warn(f"{task.scripted_id} was recorded by another version of the demonstrator; {renew}", stacklevel=3)
    if episodes is None or episodes == len(demonstrations):
        return demonstrations
    if episodes > len(demonstrations):
        raise ValueError(f"{task.scripted_id} holds {len(demonstrations)} episodes, not episodes={episodes}; {renew}")
    return demonstrations.select(range(episodes))


Attempt = Callable[[TaskData, Console], Path]
WHERE: dict[Attempt, str] = {
    _mac_data: "$MAC_DATA",
    _local_minari: "local Minari store",
    _d4rl_cache: "downloaded D4RL files",
    _remote_minari: "Minari remote",
    _official: "official D4RL file",
    _scripted: "scripted demonstrations",
}
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
