"""The task of any Minari data set: its demonstrations, without an environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gymnasium import spaces

from mac_policy.common.actions import Actions, Meaning
from mac_policy.common.checks import check_list
from mac_policy.common.labels import Label
from mac_policy.demonstrations.demonstrations import Demonstrations
from mac_policy.demonstrations.minari_read import action_space, stored_labels
from mac_policy.demonstrations.minari_store import local_path
from mac_policy.demonstrations.task_data import TaskData
from mac_policy.tasks.task import Task, register_task


@dataclass(frozen=True)
class MinariTask(Task):
    """dataset: a Minari id, of a set with Box (or Dict of Box) observations and a Box of actions
    meaning: what an action is: absolute (a place), relative (an offset from the reading), delta (from the last target)
        or unknown; `scripts/inspect_data.py` shows which is likely
    names, units: of the dims of an action: one name for each, and one unit for each or for all
    observed, scale: of relative actions, for each dim the index of the observation that it moves, and the change that
        a unit of action commands (one number for each dim, or one for all)
    classes: labels of the steps, {name: [class, ...]}: infos/<name> of the data set holds the number or the name of a
        class for each step; null: the labels that the data set says it has

    >>> from mac_policy.tasks import MinariTask
    >>> MinariTask(dataset="D4RL/pen/human-v2").data.name
    'D4RL/pen/human-v2'
    """

    name: str = "minari"
    dataset: str | None = None
    meaning: Meaning = "unknown"
    names: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    observed: tuple[int, ...] = ()
    scale: tuple[float, ...] = ()
    classes: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _labels(self.classes or {})

    @property
    def data(self) -> TaskData:
        if not self.dataset:
            raise ValueError(f"task={self.name} needs dataset=<Minari id>, for example dataset=D4RL/pen/human-v2")
        return TaskData(name=self.dataset, minari_id=self.dataset, labels=self.labels)

    @property
    def labels(self) -> tuple[Label, ...]:
        if self.classes is not None:
            return _labels(self.classes)
        try:
            folder = None if self.dataset is None else local_path(self.dataset)
        except ValueError:  # a file, or no id at all, which reading the data says
            folder = None
        return () if folder is None else stored_labels(folder)

    @property
    def actions(self) -> Actions:
        return Actions(self.names, self.units, self.meaning, self.observed, self.scale)

    def folder_name(self, demonstrations: Demonstrations) -> str:
        return demonstrations.source.name.replace("/", "-")

    def action_space_of(self, demonstrations: Demonstrations) -> spaces.Box:
        """The action space that the data set was recorded with."""
        return action_space(Path(demonstrations.source.location))


def _labels(classes: Mapping[str, Any]) -> tuple[Label, ...]:
    return tuple(Label(name, tuple(check_list(f"task.classes.{name}", names))) for name, names in classes.items())


register_task(MinariTask())
