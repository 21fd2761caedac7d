"""Collection of scripted demonstrations: parallel, resumable, with the same bytes however it runs."""

from __future__ import annotations

import io
import json
import shutil
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console

from mac_policy.common.arrays import read_npz
from mac_policy.common.checks import check_count
from mac_policy.common.files import write_bytes, write_text
from mac_policy.common.locks import locked
from mac_policy.common.processes import map_processes
from mac_policy.common.progress import with_progress
from mac_policy.common.provenance import versions
from mac_policy.common.reading import checked, parse_json
from mac_policy.common.settings import Natural, Settings
from mac_policy.demonstrations.checks import check_episodes
from mac_policy.demonstrations.demonstrations import Demonstrations
from mac_policy.demonstrations.episode import ARRAYS, Episode
from mac_policy.demonstrations.minari_store import DEMONSTRATOR_KEY, local_path, new_folder, store_root
from mac_policy.demonstrations.minari_write import write_minari
from mac_policy.demonstrations.task_data import Recorder, Scripted

TYPES = {"terminations": np.bool_, "truncations": np.bool_} | dict.fromkeys(
    ("observations", "actions", "rewards", "executed"), np.float32
)
COMPLETE = "complete"
"""A file in the folder of an unfinished collection: all is recorded, and the set is being stored."""
DECIDE_THE_BYTES = ("numpy", "mujoco", "gymnasium_robotics", "mac_policy")


def collect_into_store(
    scripted: Scripted,
    dataset_id: str,
    *,
    workers: int | None = None,
    overwrite: bool = False,
    keep: bool = False,
    console: Console | None = None,
) -> Path:
    """Record `scripted.episodes` demonstrations and store them as a Minari data set; return its folder.

    Finished episodes are kept beside the store until the data set is complete. If interrupted, run the same command
    again to resume. One process at a time collects a data set; another one waits.

    keep: whether a set that another process has stored meanwhile is returned
    """
    work = work_folder(dataset_id, scripted.seed)
    if (stored := _stored(dataset_id, work, overwrite, keep)) is not None:
        return stored
    say = (console or Console(stderr=True)).print
    with locked(work, wait=say):
        try:
            stored = _stored(dataset_id, work, overwrite, keep)
        except ValueError:
            _remove(work)
            raise
        if stored is not None:
            _remove(work)
            return stored
        demonstrations = _recorded(scripted, dataset_id, work, workers, console)
        extra = {DEMONSTRATOR_KEY: scripted.demonstrator} if scripted.demonstrator else {}
        card = replace(scripted.card, extra={**scripted.card.extra, **extra})
        (work / COMPLETE).touch()
        written = write_minari(demonstrations, dataset_id, card, overwrite=overwrite)
        _remove(work)
    return written


def _stored(dataset_id: str, work: Path, overwrite: bool, keep: bool) -> Path | None:
    """The folder of a set that need not be recorded; ValueError for one that must not be recorded over. What its
    collector left, if it was killed after the set was stored, is removed."""
    found = None if overwrite else local_path(dataset_id)
    if found is not None and (work / COMPLETE).exists():
        _remove(work)
    if not keep or found is None:
        new_folder(dataset_id, overwrite=overwrite)
    return found


def _remove(work: Path) -> None:
    """Remove the folder of a collection; the note that it is complete goes last, for a process that is killed here."""
    for path in work.glob("*"):
        if path.name != COMPLETE:
            path.unlink(missing_ok=True)
    shutil.rmtree(work, ignore_errors=True)


def _recorded(
    scripted: Scripted, dataset_id: str, work: Path, workers: int | None, console: Console | None
) -> Demonstrations:
    episodes = collect(
        scripted.record,
        scripted.episodes,
        seed=scripted.seed,
        work=work,
        workers=workers,
        demonstrator=scripted.demonstrator,
        console=console,
    )
    return Demonstrations.of(episodes, name=dataset_id.rpartition("/")[2], kind="scripted")


def work_folder(dataset_id: str, seed: int) -> Path:
    """The folder of the finished episodes of an unfinished collection."""
    return store_root() / ".collecting" / f"{dataset_id.replace('/', '--')}-seed{seed}"


def collect(
    record: Recorder,
    episodes: int,
    *,
    seed: int,
    work: Path,
    workers: int | None = None,
    demonstrator: str = "",
    console: Console | None = None,
) -> list[Episode]:
    """Episodes 0 .. episodes-1: those in `work` are read, the others are recorded and stored there.

    Episode i depends on `seed` and i alone, so that neither the number of workers nor resuming changes a byte.
    """
    check_count("episodes", episodes)
    check_count("seed", seed, least=0)
    if workers is not None:
        check_count("workers", workers)
    _claim(work, record, seed, demonstrator)
    missing = [i for i in range(episodes) if load_episode(episode_file(work, i)) is None]
    with closing(map_processes(partial(_record_one, record, seed, work), missing, workers)) as finished:
        for _ in with_progress(((index, 1) for index in finished), episodes, episodes - len(missing), console):
            pass
    files = (episode_file(work, i) for i in range(episodes))
    return [episode for file in files if (episode := load_episode(file)) is not None]


def _claim(work: Path, record: Recorder, seed: int, demonstrator: str) -> None:
    """Make the work folder; ValueError when it holds episodes of another recorder or seed."""
    work.mkdir(parents=True, exist_ok=True)
    whole = record if isinstance(record, partial) else partial(record)
    name = getattr(whole.func, "__qualname__", repr(whole.func))
    made_by = ", ".join(f"{key} {value}" for key, value in versions().items() if key in DECIDE_THE_BYTES)
    mine = f"{name} {whole.args} {whole.keywords} seed {seed} with {made_by} {demonstrator}".rstrip() + "\n"
    note = work / "recorder.txt"
    if not note.exists():
        write_text(note, mine)
    elif note.read_text() != mine:
        raise ValueError(
            f"{work} holds an unfinished collection by another recorder ({note.read_text().strip()}); "
            f"delete that folder or choose another dataset_id"
        )


def _record_one(record: Recorder, seed: int, work: Path, index: int) -> int:
    save_episode(episode_file(work, index), record(seed=seed, index=index))
    return index


@dataclass(frozen=True)
class Notes(Settings):
    """What an episode's file says besides its arrays."""

    completed: tuple[str, ...]
    seed: Natural | None


def episode_file(folder: Path, index: int) -> Path:
    """The file of episode `index`."""
    return folder / f"episode_{index:06d}.npz"


def save_episode(path: Path, episode: Episode) -> None:
    """Write an episode; the file appears under its name only when it is complete."""
    arrays = {name: values for name in ARRAYS if (values := getattr(episode, name)) is not None}
    notes = json.dumps({"completed": episode.completed, "seed": episode.seed})
    buffer = io.BytesIO()
    np.savez(buffer, notes=np.array(notes), **arrays)
    try:
        write_bytes(path, buffer.getvalue())
    except OSError as error:
        raise OSError(f"episode could not be written to {path}: {error}; finished episodes are kept") from error


def load_episode(path: Path) -> Episode | None:
    """The episode in a file; None where there is no file or it cannot be read whole."""
    try:
        arrays = read_npz(path)
        notes = checked(Notes, parse_json(str(arrays.pop("notes")), str(path)), str(path))
        found = Episode(**arrays, completed=notes.completed, seed=notes.seed)
        check_episodes([found], str(path))
    except (OSError, KeyError, TypeError, ValueError):
        return None
    right = all(value.dtype == TYPES[name] for name, value in arrays.items())
    return found if right else None
