"""Writer of Minari data sets."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from mac_policy.common.labels import UNSAID, Label
from mac_policy.demonstrations.demonstrations import Demonstrations
from mac_policy.demonstrations.episode import Episode
from mac_policy.demonstrations.minari_store import (
    COMPLETED_KEY,
    EXECUTED_KEY,
    KIND_KEY,
    LABELS_KEY,
    incoming,
    new_folder,
    put,
    store_root,
)

BYTES_AN_EPISODE = 20_000
"""Upper bound of the bytes that hdf5 adds to the values of an episode."""


@dataclass(frozen=True)
class Card:
    """The metadata of a written data set. The code permalink is for the user to give.

    labels: those that the episodes have, which are stored as infos of their names
    """

    description: str = ""
    algorithm: str = ""
    author: tuple[str, ...] = ()
    author_email: tuple[str, ...] = ()
    code_permalink: str = ""
    requirements: tuple[str, ...] = ()
    env_spec: EnvSpec | None = None
    observation_space: spaces.Space[Any] | None = None
    action_space: spaces.Box | None = None
    labels: tuple[Label, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)

    def metadata(self) -> dict[str, Any]:
        """The entries of metadata.json that are not empty."""
        entries = {
            "description": self.description,
            "algorithm_name": self.algorithm,
            "author": set(self.author),
            "author_email": set(self.author_email),
            "code_permalink": self.code_permalink,
            "requirements": list(self.requirements),
            LABELS_KEY: {label.name: list(label.classes) for label in self.labels},
        }
        return {**{key: value for key, value in entries.items() if value}, **self.extra}


def write_minari(
    demonstrations: Demonstrations, dataset_id: str, card: Card | None = None, *, overwrite: bool = False
) -> Path:
    """Write a data set into the local Minari store and return its folder.

    It is written beside its folder and moved there when complete, so that readers never find part of it.
    """
    card = card or Card()
    _check_labels(demonstrations, card.labels)
    target = new_folder(dataset_id, overwrite=overwrite)
    with incoming() as folder:
        try:
            _check_space(folder, demonstrations)
            _write(demonstrations, dataset_id, card, folder / "data")
        except (OSError, RuntimeError) as error:
            raise OSError(f"{dataset_id} could not be written to {store_root()}: {error}") from error
        _create_namespace(dataset_id)
        put(folder, target)
    return target


def _check_labels(demonstrations: Demonstrations, labels: Sequence[Label]) -> None:
    """ValueError where episodes have labels that nothing names, or none that is named."""
    for index, episode in enumerate(demonstrations.episodes):
        found = 0 if episode.labels is None else episode.labels.shape[1]
        if found != len(labels):
            raise ValueError(
                f"episode {index} has {found} labels, the card names {[label.name for label in labels]}: give "
                "Card(labels=...) what Episode.labels holds"
            )
    if EXECUTED_KEY in [label.name for label in labels]:
        raise ValueError(f"a label cannot be called {EXECUTED_KEY!r}, which is the name of another entry of infos")


def _check_space(folder: Path, demonstrations: Demonstrations) -> None:
    """OSError when the disk lacks space: without space, hdf5 may abort the process."""
    arrays = ("observations", "actions", "rewards", "executed")
    fields = (getattr(episode, name) for episode in demonstrations.episodes for name in arrays)
    size = int(1.2 * sum(values.nbytes for values in fields if values is not None))
    with tempfile.TemporaryFile(dir=folder) as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size + BYTES_AN_EPISODE * len(demonstrations))


def _create_namespace(dataset_id: str) -> None:
    from minari.namespace import create_namespace

    namespace = dataset_id.rpartition("/")[0]
    if namespace and not (store_root() / namespace / "namespace_metadata.json").is_file():
        create_namespace(namespace)


def _write(demonstrations: Demonstrations, dataset_id: str, card: Card, data: Path) -> None:
    import minari
    from minari.dataset.minari_storage import MinariStorage

    space = card.action_space or spaces.Box(-np.inf, np.inf, (demonstrations.action_dim,), np.float32)
    observation_space = card.observation_space or spaces.Box(
        -np.inf, np.inf, (demonstrations.observation_dim,), np.float32
    )
    storage = MinariStorage.new(data, observation_space, space, card.env_spec, "hdf5")
    storage.update_metadata(
        {
            "dataset_id": dataset_id,
            "minari_version": minari.__version__,
            KIND_KEY: demonstrations.source.kind,
            **card.metadata(),
        }
    )
    storage.update_episodes(_buffers(demonstrations.episodes, card.labels))
    storage.update_episode_metadata(
        {COMPLETED_KEY: json.dumps(episode.completed)} for episode in demonstrations.episodes
    )


def _buffers(episodes: Iterable[Episode], labels: Sequence[Label]) -> Iterator[Any]:
    from minari.data_collector import EpisodeBuffer

    for index, episode in enumerate(episodes):
        infos = {}
        if episode.executed is not None:  # like every info, one row more than actions: the first belongs to the reset
            infos[EXECUTED_KEY] = np.concatenate([np.zeros_like(episode.executed[:1]), episode.executed])
        if episode.labels is not None:
            codes = np.concatenate([np.full_like(episode.labels[:1], UNSAID), episode.labels])
            infos |= {label.name: codes[:, column] for column, label in enumerate(labels)}
        yield EpisodeBuffer(
            id=index,
            seed=episode.seed,
            observations=episode.observations,
            actions=episode.actions,
            rewards=episode.rewards,
            terminations=episode.terminations,
            truncations=episode.truncations,
            infos=infos,
        )
