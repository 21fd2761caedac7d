"""Published data sets of demonstrations: Minari's and D4RL's, downloaded into their folders on this machine."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from rich.console import Console

from mac_policy.common.digest import file_sha256
from mac_policy.common.download import CONNECT_SECONDS, Download, Unavailable, brief, offline, retrieve, within
from mac_policy.demonstrations.minari_store import check_dataset_id, local_path, store_root
from mac_policy.demonstrations.task_data import OfficialFile

LOOK_UP_SECONDS = 10.0


def fetch_minari(dataset_id: str, *, seconds: float | None = None) -> Path:
    """Download a published Minari data set into the local store and return its folder.

    Unavailable when the remote does not answer within `seconds` or has no such data set.
    """
    check_dataset_id(dataset_id)
    if offline():
        raise Unavailable("HF_HUB_OFFLINE is set")
    remote = within(seconds or LOOK_UP_SECONDS, lambda: _look_up(dataset_id))
    store = store_root()
    incoming = Path(tempfile.mkdtemp(prefix=".incoming-", dir=store))
    try:
        remote.download_dataset(dataset_id, incoming)
        target = store / dataset_id
        target.parent.mkdir(parents=True, exist_ok=True)
        (incoming / dataset_id).rename(target)
    except Exception as error:
        raise Unavailable(f"downloading {dataset_id} failed: {brief(error)}") from error
    finally:
        shutil.rmtree(incoming, ignore_errors=True)
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
    with contextlib.suppress(urllib.error.HTTPError):  # an answer, whatever it says
        urllib.request.urlopen(request, timeout=LOOK_UP_SECONDS).close()


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
