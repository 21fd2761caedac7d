"""The experiment about intents as a task: somebody wants four of the kitchen's seven tasks, which no policy is told."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from envs.kitchen.goals import (
    CANONICAL_ORDER,
    DETOURS,
    MAX_EPISODE_STEPS,
    TASKS_PER_DEMONSTRATION,
    VIEWS,
    kitchen_completions,
    slide_before_hinge,
)
from envs.kitchen.intent import INTENT, TASK_LABEL, check_intent, check_size, next_tasks
from envs.kitchen.task import (
    ACTION_SPACE,
    OFFICIAL,
    KitchenTask,
    official_file,
    scripted_kitchen,
    variant_of,
)
from mac_policy.common.labels import UNSAID, Label
from mac_policy.common.settings import Count, choice
from mac_policy.demonstrations import Demonstrations, Episode, TaskData, read_d4rl
from mac_policy.tasks.experiment import Experiment, PlannedRun
from mac_policy.tasks.task import Environment

if TYPE_CHECKING:
    from mac_policy.operators.dims import OperatorDims
    from mac_policy.operators.operator import Operator

EPISODES = 300
HUMAN_FILES = {OFFICIAL["kitchen-complete"][0]: "d4rl", "kettle_bottomknob_switch_hinge.hdf5": "relay_kitchen"}
"""Human demonstrations of two plans, and the folder of $MAC_DATA in which each file lies."""
HELD_OUT_EVERY = 5
"""Every fifth human demonstration is not trained on: an operator plays it back."""
EXPERIMENT = Experiment(
    operator="expert",
    runs=(
        PlannedRun("mac"),
        PlannedRun("mac", "mac-unaware", labels=False),
        PlannedRun("bc", seed=100, labels=False),
        PlannedRun("bc", "bc-told"),
    ),
    arms=(
        "operator", "operator+mac", "operator+mac-unaware", "operator+mac-told", "operator+mac-blind", "operator+bc",
        "operator+bc-told", "mac-told", "bc-told", "mac", "bc", "zeros",
    ),
    preset="intent",
)  # fmt: skip


@dataclass(frozen=True)
class IntentTask(KitchenTask):
    """The Franka kitchen in which somebody wants some of the seven tasks, in an order that no policy is told.

    An episode ends when all wanted tasks are completed, or after 280 steps; the reward counts wanted tasks.

    intent: the wanted tasks in their order; null: drawn from the seed of the episode
    wanted: how many tasks are drawn, where none are named
    """

    name: Annotated[str, choice((INTENT,), "task")] = INTENT
    intent: tuple[str, ...] | None = None
    wanted: Count = 4

    experiment = EXPERIMENT

    def __post_init__(self) -> None:
        super().__post_init__()
        check_size(self.wanted)
        if self.intent is not None:
            wanted = check_intent(self.intent)
            if wanted != slide_before_hinge(wanted):
                raise ValueError(
                    f"task.intent={list(wanted)} opens the hinge cabinet first, whose door then blocks the slide "
                    "cabinet: name the slide cabinet before it"
                )
            object.__setattr__(self, "wanted", len(wanted))

    @property
    def data(self) -> TaskData:
        return intent_data(self.sensors)

    @property
    def labels(self) -> tuple[Label, ...]:
        return (TASK_LABEL,)

    def label_episode(self, episode: Episode) -> NDArray[np.int64]:
        """(T, 1): the task that the episode completes next.

        What was wanted after the last one is not known where time ran out before four tasks were completed.
        """
        completions = kitchen_completions(episode.observations)
        labels = next_tasks(completions, len(episode))
        if len(episode) >= MAX_EPISODE_STEPS and len(completions) < TASKS_PER_DEMONSTRATION:
            labels[max(completions.values(), default=0) :] = UNSAID
        return labels[:, None]

    @property
    def best_reward(self) -> float:
        return float(self.wanted)

    def make(self, size: int | None = None) -> Environment:
        return self.made(size, intent=self.intent, wanted=self.wanted)

    def expert(
        self,
        environments: Sequence[Environment],
        dims: OperatorDims,
        *,
        cooperative: bool = False,
        changes_mind: bool = False,
    ) -> Operator:
        from envs.kitchen.operator import ExpertOperator

        return ExpertOperator(environments, dims, CANONICAL_ORDER, cooperative=cooperative, changes_mind=changes_mind)

    def load_demonstrations(
        self,
        *,
        source: str = "auto",
        path: str | Path | None = None,
        outside: str = "clip",
        episodes: int | None = None,
        order: str = "default",
    ) -> Demonstrations:
        """Labelled demonstrations: scripted ones by default, human ones of two plans with source='human', D4RL's
        kitchen-mixed with source='d4rl', those of another file with `path`."""
        if source == "human" and path is None:
            found = human_demonstrations(self.view, outside, held_out=False)
            print(f"Demonstrations: {found.source.name}, {len(found)} episodes, {found.steps:,} steps", file=sys.stderr)
            return self.labelled(found)
        return super().load_demonstrations(
            source="scripted" if source == "auto" and path is None else source,
            path=path,
            outside=outside,
            episodes=episodes,
            order="default" if order == "random" else order,  # which is random
        )

    def recordings(self) -> Demonstrations:
        """The human demonstrations that no policy is trained on."""
        return self.labelled(human_demonstrations(self.view, "clip", held_out=True))

    def describe(self) -> str:
        what = f"{self.wanted} of 7 tasks in an order" if self.intent is None else ", then ".join(self.intent)
        return f"{super().describe().replace(', '.join(CANONICAL_ORDER), f'wanted: {what}')}"

    def identity(self) -> dict[str, Any]:
        return super().identity() | {"intent": None if self.intent is None else list(self.intent)}


@functools.cache
def intent_data(sensors: str = "stock") -> TaskData:
    """Scripted demonstrations of four of the seven tasks in any order; D4RL's kitchen-mixed as the published ones."""
    return TaskData(
        name=INTENT,
        action_space=ACTION_SPACE,
        views=VIEWS,
        published_kind="human",
        official=official_file("kitchen-mixed"),
        scripted=scripted_kitchen(INTENT, sensors, DETOURS, episodes=EPISODES),
        variant=variant_of(sensors),
        completions=kitchen_completions,
    )


def human_demonstrations(view: str, outside: str, *, held_out: bool) -> Demonstrations:
    """The human demonstrations of two plans in $MAC_DATA: those to train on, or those that are held out."""
    files = human_files()
    episodes = [episode for file in files for episode in human_episodes(file, view, outside)]
    chosen = [e for i, e in enumerate(episodes) if (i % HELD_OUT_EVERY == HELD_OUT_EVERY - 1) == held_out]
    kept = "held out" if held_out else "trained on"
    return Demonstrations.of(chosen, name=f"{INTENT}-human ({kept})", kind="human", location=", ".join(map(str, files)))


@functools.lru_cache(maxsize=4)
def human_episodes(file: Path, view: str, outside: str) -> tuple[Episode, ...]:
    """The episodes of a file of human demonstrations."""
    data = intent_data()
    return read_d4rl(
        file,
        select=data.select(view),
        completions=data.completions,
        action_space=data.action_space,
        outside=outside,
        kind="human",
    ).episodes


def human_files() -> Sequence[Path]:
    """The files of human demonstrations; ValueError that names what is missing."""
    root = Path(os.environ.get("MAC_DATA") or "data")
    found = []
    for name, folder in HUMAN_FILES.items():
        places = [place for place in (root / folder / name, root / name) if place.is_file()]
        if not places:
            raise ValueError(
                f"human demonstrations of {INTENT} are {' and '.join(HUMAN_FILES)}, and {root} has no {folder}/{name}: "
                "set MAC_DATA to a folder that holds both (see docs/datasets.md), or use data.source=scripted"
            )
        found.append(places[0])
    return found
