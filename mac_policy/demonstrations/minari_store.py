"""The local Minari store: folders and ids of its data sets, and downloads into it."""

from __future__ import annotations

import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mac_policy.common import locks
from mac_policy.common.download import Unavailable, brief, offline, within

LOOK_UP_SECONDS = 10.0

KIND_KEY = "source_kind"
COMPLETED_KEY = "completed"
EXECUTED_KEY = "executed_actions"
DEMONSTRATOR_KEY = "demonstrator_sha256"
LABELS_KEY = "label_classes"


def store_root() -> Path:
    """The local Minari store: $MINARI_DATASETS_PATH, else ~/.minari/datasets."""
    from minari.storage.datasets_root_dir import get_dataset_path

    return Path(get_dataset_path())


def local_path(dataset_id: str) -> Path | None:
    """The folder of a data set in the local store; None where there is none."""
    check_dataset_id(dataset_id)
    folder = store_root() / dataset_id
    recover(folder)
    return folder if (folder / "data" / "metadata.json").is_file() else None


def check_dataset_id(dataset_id: str) -> str:
    """`dataset_id` if it has the form (namespace/)name-v0."""
    from minari.dataset.minari_dataset import DATASET_ID_RE

    match = DATASET_ID_RE.fullmatch(str(dataset_id))
    if match is None or match.group("version") is None:
        raise ValueError(
            f"{dataset_id!r} is no Minari id; the form is (namespace/)name-v<number>, "
            "with a namespace of two or more letters, digits, hyphens and slashes"
        )
    return dataset_id


def local_ids() -> list[str]:
    """The ids in the local store."""
    root = store_root()
    found = (path.parent.parent.relative_to(root) for path in root.glob("**/data/metadata.json"))
    return sorted(path.as_posix() for path in found if not any(part[0] == "." for part in path.parts))


def new_folder(dataset_id: str, *, overwrite: bool) -> Path:
    """The folder of a data set that is to be written; ValueError where it exists, unless it may be overwritten."""
    target = store_root() / check_dataset_id(dataset_id)
    recover(target)
    if target.exists() and not overwrite:
        raise ValueError(f"{dataset_id} exists at {target}; overwrite=true replaces it")
    return target


@contextmanager
def incoming() -> Iterator[Path]:
    """A temporary folder in the store, removed afterwards; what killed processes have left is removed first."""
    with locks.incoming(store_root()) as folder:
        yield folder


def put(folder: Path, target: Path) -> None:
    """Move `folder` to `target`; an old folder is removed only after the new one is in place.

    A process that is killed in between leaves the old folder beside its place, from where `recover` takes it back.
    """
    folder.chmod(0o755)
    aside = _aside(target)
    with locks.locked(target.parent, wait=_silently):
        if target.exists():
            shutil.rmtree(aside, ignore_errors=True)
            target.rename(aside)
        folder.rename(target)
    shutil.rmtree(aside, ignore_errors=True)


def recover(target: Path) -> None:
    """Put back the folder that a process was replacing when it was killed."""
    aside = _aside(target)
    if not aside.exists():
        return
    with suppress(OSError), locks.locked(target.parent, wait=_silently):
        if target.exists():
            shutil.rmtree(aside, ignore_errors=True)
        elif aside.exists():
            aside.rename(target)


def _aside(target: Path) -> Path:
    return target.with_name(f".{target.name}-replaced")


def _silently(what: str) -> None:
    """The wait is for two renames."""


def fetch_minari(dataset_id: str, *, seconds: float | None = None) -> Path:
    """Download a published Minari data set into the local store and return its folder.

    Unavailable when the remote does not answer within `seconds` or has no such data set.
    """
    check_dataset_id(dataset_id)
    if offline():
        raise Unavailable("HF_HUB_OFFLINE is set")
    remote = within(seconds or LOOK_UP_SECONDS, lambda: _look_up(dataset_id))
    with incoming() as folder:
        try:
            remote.download_dataset(dataset_id, folder)
            put(folder / dataset_id, store_root() / dataset_id)
        except Exception as error:
            raise Unavailable(f"downloading {dataset_id} failed: {brief(error)} (into {store_root()})") from error
    found = local_path(dataset_id)
    if found is None:
        raise Unavailable(f"the Minari remote's copy of {dataset_id} has no data")
    return found


def _look_up(dataset_id: str) -> Any:
    from minari.storage.remotes import DEFAULT_REMOTE, get_cloud_storage

    if os.environ.get("MINARI_REMOTE", DEFAULT_REMOTE).startswith("hf://"):
        _reach(os.environ.get("HF_ENDPOINT", "https://huggingface.co"))
    storage = get_cloud_storage()
    storage.get_dataset_metadata(dataset_id)
    return storage


def _reach(url: str) -> None:
    """Raise when nothing answers at `url`: the hub's client would try five times and print each."""
    request = urllib.request.Request(url, method="HEAD")
    with suppress(urllib.error.HTTPError):  # an answer, whatever it says
        urllib.request.urlopen(request, timeout=LOOK_UP_SECONDS).close()
