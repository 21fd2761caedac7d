"""The operator of a measurement, as plain data that travels to worker processes."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium
from gymnasium import spaces

from mac_policy.operators.dims import OperatorDims
from mac_policy.operators.operator import Operator
from mac_policy.operators.registry import OperatorKind, Resources
from mac_policy.policies.saved import SavedPolicy


class Expert(Protocol):
    """Makes the scripted expert of a task for its environments. A frozen dataclass: experts compare by value."""

    def __call__(self, environments: Sequence[gymnasium.Env[Any, Any]], dims: OperatorDims) -> Operator: ...

    def identity(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class OperatorChoice:
    """A kind of operator, the dims that it holds, and what the kind may need.

    policy: the trained policy of a bc operator
    expert: the expert of the task
    """

    kind: OperatorKind
    dims: OperatorDims
    policy: SavedPolicy | None = None
    expert: Expert | None = None

    @property
    def needs_policy(self) -> bool:
        return "policy" in self.kind.needs

    def with_policy(self, policy: SavedPolicy) -> OperatorChoice:
        """The same with a policy folder."""
        return dataclasses.replace(self, policy=policy)

    def holding_all(self) -> OperatorChoice:
        """The same operator, holding all dims."""
        n = self.dims.action_dim
        return dataclasses.replace(self, dims=OperatorDims.parse(n, n))

    def check(self, space: spaces.Box) -> None:
        """ValueError when a file that the operator needs cannot be used."""
        self.kind.check(self.dims, space)

    def __call__(self, environments: Sequence[gymnasium.Env[Any, Any]]) -> Operator:
        space = environments[0].action_space
        if not isinstance(space, spaces.Box):
            raise ValueError(f"an operator needs a Box of actions, the environment has {space}")
        policy = self.policy.load() if self.needs_policy and self.policy is not None else None
        expert = None if self.expert is None else functools.partial(self.expert, environments)
        return self.kind.make(self.dims, len(environments), Resources(space, policy, expert, environments))

    def identity(self) -> dict[str, Any]:
        """Plain JSON: everything that the commands depend on besides the observations and the episode's seed."""
        found = self.kind.identity() | {"dims": str(self.dims)}
        if self.needs_policy and self.policy is not None:
            found["policy"] = self.policy.identity()
        if "expert" in self.kind.needs and self.expert is not None:
            found["expert"] = self.expert.identity()
        return found

    @property
    def label(self) -> str:
        """Two or three words, for a title."""
        return self.kind.label

    def describe(self) -> str:
        """Who commands, in words, for a table."""
        return self.kind.describe()
