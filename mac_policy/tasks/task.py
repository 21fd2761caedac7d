"""The protocol of a task: what a robot is to do, with its demonstrations, environment, expert and drawing; the
tasks by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, runtime_checkable

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mac_policy.common.actions import Actions
from mac_policy.common.checks import check_choice, check_mapping
from mac_policy.common.digest import modules_sha256
from mac_policy.common.labels import Label
from mac_policy.common.registry import Registry
from mac_policy.common.settings import Settings
from mac_policy.demonstrations.demonstrations import Demonstrations
from mac_policy.demonstrations.episode import Episode
from mac_policy.demonstrations.resolve import load
from mac_policy.demonstrations.task_data import TaskData
from mac_policy.tasks.experiment import DEFAULT, Experiment

if TYPE_CHECKING:
    from mac_policy.operators.dims import OperatorDims
    from mac_policy.operators.operator import Operator

Environment = gymnasium.Env[Any, Any]
T = TypeVar("T", bound="Task")


class RendererMissing(OSError):
    """An environment cannot be drawn on this machine: no OpenGL backend works, or not the chosen one."""


@dataclass(frozen=True)
class Task(Settings):
    """Base class of tasks. A task is a frozen dataclass whose fields are its options; `name` is the first.

    A subclass defines `data`. One whose policies can be rolled out also defines `make` and `goals`, and, where the
    options of the environment choose what is observed, `seen_by`. One with a scripted expert defines `expert`.

    >>> from mac_policy.tasks import TASKS
    >>> task = TASKS.find("minari").with_options(dataset="D4RL/pen/human-v2")
    >>> task.data.minari_id, task.has_environment
    ('D4RL/pen/human-v2', False)
    """

    prefix: ClassVar[str] = "task."
    name: str

    modules: ClassVar[tuple[str, ...]] = ()
    """Modules and packages whose code decides the course of an episode; by default the module of the class."""
    film_every: ClassVar[int] = 1
    """Steps from one frame of a film to the next."""
    film_fps: ClassVar[int] = 10
    experiment: ClassVar[Experiment] = DEFAULT
    """What is trained and compared where the user does not say."""

    def with_options(self: T, options: Mapping[str, Any] | None = None, **more: Any) -> T:
        """A copy with other options; ValueError for an option that the task does not have."""
        changed = {**check_mapping("options", {} if options is None else options), **more}
        names = [field.name for field in fields(self) if field.name != "name"]
        for key in changed:
            if key not in names:
                check_choice(f"option of task={self.name}", key, names)
        return replace(self, **changed)

    # ---- demonstrations ----

    @property
    def data(self) -> TaskData:
        """Where demonstrations are looked for, how they are read, and who records scripted ones."""
        raise NotImplementedError(f"{type(self).__name__} does not define data")

    @property
    def view(self) -> str | None:
        """The view of `data` that selects the columns of an observation; None keeps all columns."""
        return None

    def load_demonstrations(
        self,
        *,
        source: str = "auto",
        path: str | Path | None = None,
        outside: str = "clip",
        episodes: int | None = None,
        order: str = "default",
    ) -> Demonstrations:
        """The demonstrations of the task, labelled; see `mac_policy.demonstrations.resolve.load` for the arguments."""
        found = load(
            self.data, source=source, path=path, observation=self.view, outside=outside, episodes=episodes, order=order
        )
        return self.labelled(found)

    @property
    def labels(self) -> tuple[Label, ...]:
        """What can be said of an action besides the action itself, such as the task that it serves."""
        return ()

    def label_episode(self, episode: Episode) -> NDArray[np.int64]:
        """(T, L): the class of each of `labels` at each step of an episode, -1 where it is not known."""
        raise NotImplementedError(f"{type(self).__name__} has labels and does not define label_episode")

    def labelled(self, demonstrations: Demonstrations) -> Demonstrations:
        """The demonstrations with labels, where the task has labels; those that the data bring stay."""
        if not self.labels:
            return demonstrations
        found = (
            e if e.labels is not None else replace(e, labels=self.label_episode(e)) for e in demonstrations.episodes
        )
        return replace(demonstrations, episodes=tuple(found))

    def recordings(self) -> Demonstrations:
        """Recorded episodes that no policy is trained on, which an operator plays back."""
        raise ValueError(f"task={self.name} has no held-out recordings: give operator.path=FILE")

    @property
    def has_recordings(self) -> bool:
        """Whether the task has held-out recordings."""
        return type(self).recordings is not Task.recordings

    def folder_name(self, demonstrations: Demonstrations) -> str:
        """The folder of the task's runs, within the folder of all runs."""
        return self.name

    def action_space_of(self, demonstrations: Demonstrations) -> spaces.Box:
        """The action space of policies that learn from these demonstrations."""
        if self.action_space is None:
            raise ValueError(f"task={self.name} does not say what its action space is")
        return self.action_space

    # ---- environment ----

    @property
    def action_space(self) -> spaces.Box | None:
        """The action space where it is known without demonstrations."""
        return self.data.action_space

    @property
    def actions(self) -> Actions:
        """What is known of the action's dims: names, units, the positions that they move."""
        return Actions()

    @property
    def goals(self) -> tuple[str, ...]:
        """What can be completed within an episode."""
        return ()

    @property
    def best_reward(self) -> float:
        """The highest reward that an episode can bring."""
        return float(len(self.goals))

    def make(self, size: int | None = None) -> Environment:
        """An environment of the task; `size` in pixels: one whose `render` returns arrays."""
        raise ValueError(
            f"task={self.name} has no environment here: put an ActionFilter around yours, as the README shows"
        )

    @property
    def has_environment(self) -> bool:
        """Whether policies can be rolled out."""
        return type(self).make is not Task.make

    def seen_by(self: T, observation_dim: int) -> T:
        """The task whose environment has the observations of a policy of so many."""
        return self

    def environment_for(self, observation_dim: int | None = None) -> TaskEnvironment:
        """Makes environments for a policy of so many observations; None: as the options say."""
        return TaskEnvironment(self if observation_dim is None else self.seen_by(observation_dim))

    def reset_options(self, episode: Episode) -> dict[str, Any] | None:
        """Options of `reset` from which a recorded episode without a seed is replayed."""
        return None

    def expert(self, environments: Sequence[Environment], dims: OperatorDims) -> Operator:
        """The scripted expert of environments that are stepped together."""
        raise ValueError(f"task={self.name} has no scripted expert")

    @property
    def has_expert(self) -> bool:
        """Whether the task has a scripted expert."""
        return type(self).expert is not Task.expert

    # ---- what results depend on ----

    def describe(self) -> str:
        """Name, goals and relevant options, for a title."""
        return f"{self.name} ({', '.join(self.goals)})" if self.goals else self.name

    def code(self) -> str:
        """sha256 of the code that decides the course of an episode."""
        return modules_sha256(*(self.modules or (type(self).__module__,)))

    def identity(self) -> dict[str, Any]:
        """Plain JSON: everything that an episode depends on besides its seed and the actions."""
        return {"task": self.name, **{key: value for key, value in asdict(self).items() if key != "name"}} | {
            "code": self.code()
        }


@runtime_checkable
class EnvironmentFactory(Protocol):
    """Makes environments for rollouts. Picklable, and equal to another factory that makes the same."""

    def __call__(self) -> Environment: ...

    def __hash__(self) -> int: ...

    def identity(self) -> dict[str, Any]:
        """Plain JSON: everything that an episode depends on besides its seed and the actions."""
        ...


@dataclass(frozen=True)
class TaskEnvironment:
    """Makes environments of a task: an environment factory that worker processes can be sent.

    size: in pixels, of environments that are filmed
    """

    task: Task
    size: int | None = None

    def __call__(self) -> Environment:
        return self.task.make(self.size)

    def identity(self) -> dict[str, Any]:
        return self.task.identity()


def check_task(task: Any) -> None:
    """ValueError unless this is an instance of `Task`."""
    if not isinstance(task, Task):
        raise ValueError(f"a task must be an instance of mac_policy.tasks.Task, got {task!r}")


TASKS: Registry[Task] = Registry("task", "mac_policy.tasks", check_task)
"""Each task with its default options."""


def register_task(task: Task) -> Task:
    """Make a task known by its name; returns the task.

    >>> from mac_policy.tasks import MinariTask, register_task
    >>> register_task(MinariTask("pen", dataset="D4RL/pen/human-v2"))   # changes the registry   # doctest: +SKIP
    """
    check_task(task)
    return TASKS.register(task.name, task)
