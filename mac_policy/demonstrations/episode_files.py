"""Files of one episode each, written atomically."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import numpy as np

from mac_policy.common.files import write_bytes
from mac_policy.demonstrations.episode import ARRAYS, Episode


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
