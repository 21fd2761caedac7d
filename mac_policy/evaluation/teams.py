"""Teams: an operator, a policy that fills in the rest, and their training seed.

Teams are plain data, which is sent to worker processes and identifies what a result depends on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import gymnasium

from mac_policy.policies.saved import SavedPolicy

if TYPE_CHECKING:
    from mac_policy.operators.operator import Operator

Environment = gymnasium.Env[Any, Any]


class EnvironmentFactory(Protocol):
    """Makes one environment. Hashable, picklable, equal to another when both make the same."""

    def __call__(self) -> Environment: ...

    def __hash__(self) -> int: ...

    def identity(self) -> dict[str, Any]:
        """Plain JSON: everything that an episode depends on besides its seed and the actions."""
        ...


class OperatorFactory(Protocol):
    """Makes the operator of environments that are stepped together. Hashable and picklable."""

    def __call__(self, environments: Sequence[Environment]) -> Operator: ...

    def __hash__(self) -> int: ...

    def identity(self) -> dict[str, Any]:
        """Plain JSON: everything that the commands depend on besides the episode's seed and the observations."""
        ...


@dataclass(frozen=True)
class Team:
    """One arm of a comparison at one training seed."""

    arm: str
    training_seed: int | None
    """None if nothing in the team is trained."""
    filler: SavedPolicy | None = None
    """Fills in the dims that the operator does not hold; None: zeros."""
    operator: OperatorFactory | None = None
    """None: the filler acts alone."""
    see_operator: bool = True
    """Whether the filler is shown the command; it is executed in any case."""

    def identity(self) -> dict[str, Any]:
        """Plain JSON: everything that the team's episodes depend on besides the environment."""
        return {
            "filler": None if self.filler is None else self.filler.identity(),
            "operator": None if self.operator is None else self.operator.identity(),
            "see_operator": self.see_operator,
        }
