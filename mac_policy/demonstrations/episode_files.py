"""One episode a file, written whole or not at all."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import numpy as np

from mac_policy.demonstrations.episode import Episode

_ARRAYS = ("observations", "actions", "rewards", "terminations", "truncations")


def episode_file(folder: Path, index: int) -> Path:
    """The file of episode `index`."""
    return folder / f"episode_{index:06d}.npz"


def save_episode(path: Path, episode: Episode) -> None:
    """Write an episode; the file appears under its name only when it is complete."""
    arrays = {name: getattr(episode, name) for name in _ARRAYS}
    if episode.executed is not None:
        arrays["executed"] = episode.executed
    notes = json.dumps({"completed": episode.completed, "seed": episode.seed})
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            np.savez(file, notes=np.array(notes), **arrays)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise OSError(f"episode could not be written to {path}: {error}; what is complete stays") from error
    finally:
        part.unlink(missing_ok=True)


def load_episode(path: Path) -> Episode | None:
    """The episode in a file; None where there is no file or it cannot be read whole."""
    try:
        with np.load(path) as file:
            notes = json.loads(str(file["notes"]))
            arrays = {name: file[name] for name in _ARRAYS}
            executed = file["executed"] if "executed" in file.files else None
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile):
        return None
    return Episode(**arrays, completed=tuple(notes["completed"]), executed=executed, seed=notes["seed"])
