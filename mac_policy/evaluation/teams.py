"""Teams: an operator, a policy that fills in the rest, and their training seed.

Teams are plain data, which is sent to worker processes and identifies what a result depends on.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gymnasium import spaces

from mac_policy.common.labels import Label
from mac_policy.demonstrations.episode import Episode
from mac_policy.operators.dims import OperatorDims
from mac_policy.operators.operator import Operator
from mac_policy.operators.registry import OperatorKind, Recording, Resources
from mac_policy.policies.checkpoint import SavedPolicy
from mac_policy.tasks.task import Environment, Task


@dataclass(frozen=True)
class OperatorChoice:
    """A kind of operator, the dims that it holds, and what the kind may need.

    policy: the trained policy of a bc operator
    task: brings the scripted expert, and recordings of people
    """

    kind: OperatorKind
    dims: OperatorDims
    policy: SavedPolicy | None = None
    task: Task | None = None

    @property
    def needs_policy(self) -> bool:
        return "policy" in self.kind.needs

    @property
    def says(self) -> bool:
        """Whether the operator says what it wants, as a class of the task's first label."""
        return self.kind.says and self.task is not None and bool(self.task.labels)

    def holding(self, dims: Any) -> OperatorChoice:
        """The same operator with other dims, as `OperatorDims.parse` reads them."""
        return replace(self, dims=OperatorDims.parse(dims, self.dims.action_dim))

    def check(self, space: spaces.Box) -> None:
        """ValueError where the operator cannot command actions of the space, or what it needs is not there."""
        if not self.kind.needs:
            self.kind.make(self.dims, 1, Resources(space))
        if "recordings" in self.kind.needs and self.task is not None:
            self.task.recordings()
        if "expert" in self.kind.needs and self.task is not None and self.task.has_expert:
            known = inspect.signature(self.task.expert).parameters
            for name in ("cooperative", "changes_mind"):
                if getattr(self.kind, name, False) and name not in known:
                    raise ValueError(f"operator.{name}=true: the expert of task={self.task.name} has no such manner")

    def __call__(self, environments: Sequence[Environment]) -> Operator:
        """The operator of environments that are stepped together."""
        space = environments[0].action_space
        if not isinstance(space, spaces.Box):
            raise ValueError(f"an operator needs a Box of actions, the environment has {space}")
        policy = self.policy.load() if self.needs_policy and self.policy is not None else None
        task = self.task if self.task is not None and self.task.has_expert else None
        expert = None if task is None else functools.partial(task.expert, environments)
        resources = Resources(space, policy, expert, environments)
        if self.task is not None:
            resources = resources._replace(recordings=self._recordings, actions=self.task.actions)
        return self.kind.make(self.dims, len(environments), resources)

    def _recordings(self) -> list[Recording]:
        """The episodes of people that the task holds out, with what was done next at each step."""
        task = self.task
        return [] if task is None else [recording(episode, task.labels) for episode in task.recordings().episodes]

    def identity(self) -> dict[str, Any]:
        """Plain JSON: everything that the commands depend on besides the observations and the episode's seed."""
        found = self.kind.identity() | {"dims": str(self.dims)}
        if self.needs_policy and self.policy is not None:
            found["policy"] = self.policy.identity()
        if "expert" in self.kind.needs and self.task is not None:
            found["expert"] = {"task": self.task.name, "code": self.task.code()}
        if "recordings" in self.kind.needs and self.task is not None:
            found["recordings"] = self.task.recordings().source.sha256
        return found


def recording(episode: Episode, labels: Sequence[Label]) -> Recording:
    """An episode as operators play it back."""
    codes = () if episode.labels is None else episode.labels[:, 0].tolist()
    wishes = tuple(None if code < 0 else labels[0].classes[code] for code in codes)
    return Recording(episode.observations[:-1], episode.actions, wishes, episode.completed)


@dataclass(frozen=True)
class Team:
    """One arm of a comparison at one training seed."""

    arm: str
    training_seed: int | None
    """None if nothing in the team is trained."""
    filler: SavedPolicy | None = None
    """Fills in the dims that the operator does not hold; None: zeros."""
    operator: OperatorChoice | None = None
    """None: the filler acts alone."""
    see_operator: bool = True
    """Whether the filler is shown the command; it is executed in any case."""
    told: bool = False
    """Whether the filler is told what the operator wants."""

    def identity(self) -> dict[str, Any]:
        """Plain JSON: everything that the team's episodes depend on besides the environment."""
        return {
            "filler": None if self.filler is None else self.filler.identity(),
            "operator": None if self.operator is None else self.operator.identity(),
            "see_operator": self.see_operator,
            "told": self.told,
        }
