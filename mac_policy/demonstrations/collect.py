"""Collection of scripted demonstrations: parallel, resumable, with the same bytes however it runs."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console

from mac_policy.common.checks import check_count
from mac_policy.common.files import write_bytes
from mac_policy.common.processes import map_processes
from mac_policy.common.progress import with_progress
from mac_policy.common.provenance import versions
from mac_policy.demonstrations.demonstrations import Demonstrations
from mac_policy.demonstrations.episode import ARRAYS, Episode
from mac_policy.demonstrations.minari_store import DEMONSTRATOR_KEY, new_folder, store_root
from mac_policy.demonstrations.minari_write import write_minari
from mac_policy.demonstrations.task_data import Recorder, Scripted

DECIDE_THE_BYTES = ("numpy", "mujoco", "gymnasium_robotics", "mac_policy")


def collect_into_store(
    scripted: Scripted,
    dataset_id: str,
    *,
    workers: int | None = None,
    overwrite: bool = False,
    console: Console | None = None,
) -> Path:
    """Record `scripted.episodes` demonstrations and store them as a Minari data set; return its folder.

    Finished episodes are kept beside the store until the data set is complete. If interrupted, run the same command
    again to resume.
    """
    new_folder(dataset_id, overwrite=overwrite)
    work = work_folder(dataset_id, scripted.seed)
    episodes = collect(
        scripted.record,
        scripted.episodes,
        seed=scripted.seed,
        work=work,
        workers=workers,
        demonstrator=scripted.demonstrator,
        console=console,
    )
    demonstrations = Demonstrations.of(episodes, name=dataset_id.rpartition("/")[2], kind="scripted")
    extra = {DEMONSTRATOR_KEY: scripted.demonstrator} if scripted.demonstrator else {}
    card = replace(scripted.card, extra={**scripted.card.extra, **extra})
    written = write_minari(demonstrations, dataset_id, card, overwrite=overwrite)
    shutil.rmtree(work, ignore_errors=True)
    return written


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
        note.write_text(mine)
    elif note.read_text() != mine:
        raise ValueError(
            f"{work} holds an unfinished collection by another recorder ({note.read_text().strip()}); "
            f"delete that folder or choose another dataset_id"
        )


def _record_one(record: Recorder, seed: int, work: Path, index: int) -> int:
    save_episode(episode_file(work, index), record(seed=seed, index=index))
    return index


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
        with np.load(path) as file:
            notes = json.loads(str(file["notes"]))
            arrays = {name: file[name] for name in ARRAYS if name != "executed" or name in file.files}
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile):
        return None
    return Episode(**arrays, completed=tuple(notes["completed"]), seed=notes["seed"])
