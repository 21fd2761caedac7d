"""The local Minari store: folders and ids of its data sets."""

from __future__ import annotations

from pathlib import Path

KIND_KEY = "source_kind"
COMPLETED_KEY = "completed"
EXECUTED_KEY = "executed_actions"
DEMONSTRATOR_KEY = "demonstrator_sha256"


def store_root() -> Path:
    """The local Minari store: $MINARI_DATASETS_PATH, else ~/.minari/datasets."""
    from minari.storage.datasets_root_dir import get_dataset_path

    return Path(get_dataset_path())


def local_path(dataset_id: str) -> Path | None:
    """The folder of a data set in the local store; None where there is none."""
    check_dataset_id(dataset_id)
    folder = store_root() / dataset_id
    return folder if (folder / "data" / "metadata.json").is_file() else None


def check_dataset_id(dataset_id: str) -> str:
    """`dataset_id` if it has the form (namespace/)name-v0."""
    from minari.dataset.minari_dataset import DATASET_ID_RE

    match = DATASET_ID_RE.fullmatch(str(dataset_id))
    if match is None or match.group("version") is None:
        raise ValueError(f"{dataset_id!r} is no Minari id; the form is (namespace/)name-v<number>")
    return dataset_id


def local_ids() -> list[str]:
    """The ids in the local store."""
    root = store_root()
    found = (path.parent.parent.relative_to(root) for path in root.glob("**/data/metadata.json"))
    return sorted(path.as_posix() for path in found if not any(part[0] == "." for part in path.parts))
