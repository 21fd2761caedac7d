"""The task of any Minari data set: its demonstrations, without an environment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gymnasium import spaces

from mac_policy.common.actions import Actions, Meaning
from mac_policy.demonstrations.demonstrations import Demonstrations
from mac_policy.demonstrations.minari_read import action_space
from mac_policy.demonstrations.task_data import TaskData
from mac_policy.tasks.task import Task, register_task


@dataclass(frozen=True)
class MinariTask(Task):
    """dataset: a Minari id, of a set with Box (or Dict of Box) observations and a Box of actions
    meaning: what an action is: absolute (a place), relative (an offset from the reading), delta (from the last target)
        or unknown; `scripts/inspect_data.py` shows which is likely
    observed, scale: of relative actions, for each dim the index of the observation that it moves, and the change that
        a unit of action commands (one number for each dim, or one for all)

    >>> from mac_policy.tasks import MinariTask
    >>> MinariTask(dataset="D4RL/pen/human-v2").data.name
    'D4RL/pen/human-v2'
    """

    name: str = "minari"
    dataset: str | None = None
    meaning: Meaning = "unknown"
    observed: tuple[int, ...] = ()
    scale: tuple[float, ...] = ()

    @property
    def data(self) -> TaskData:
        if not self.dataset:
            raise ValueError(f"task={self.name} needs dataset=<Minari id>, for example dataset=D4RL/pen/human-v2")
        return TaskData(name=self.dataset, minari_id=self.dataset)

    @property
    def actions(self) -> Actions:
        return Actions(meaning=self.meaning, observed=self.observed, scale=self.scale)

    def folder_name(self, demonstrations: Demonstrations) -> str:
        return demonstrations.source.name.replace("/", "-")

    def action_space_of(self, demonstrations: Demonstrations) -> spaces.Box:
        """The action space that the data set was recorded with."""
        return action_space(Path(demonstrations.source.location))


register_task(MinariTask())
