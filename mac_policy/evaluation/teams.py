"""Who acts together in a measurement: an operator, a policy that fills in, and the training seed they stand for.

Everything here is plain data: it travels to worker processes, and tells what a result depends on.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import gymnasium

from mac_policy.common.digest import file_sha256
from mac_policy.policies.checkpoint import BEST, WEIGHTS, load_policy, read_config
from mac_policy.policies.policy import Policy

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
class SavedPolicy:
    """A policy folder and the settings to change when it is loaded."""

    folder: str
    settings: tuple[tuple[str, Any], ...] = ()
    weights: str = "last"

    @staticmethod
    def of(folder: str | Path, settings: Mapping[str, Any] | None = None, weights: str = "last") -> SavedPolicy:
        return SavedPolicy(str(folder), tuple((settings or {}).items()), weights)

    def load(self) -> Policy:
        """The policy; the last few loaded are kept."""
        return _load(self, self.digest())

    def digest(self) -> str:
        """sha256 of the weights."""
        return file_sha256(Path(self.folder) / (BEST if self.weights == "best" else WEIGHTS))

    def identity(self) -> dict[str, Any]:
        config = read_config(self.folder)
        return {
            "policy": config["policy"],
            "settings": config["settings"] | dict(self.settings),
            "sha256": self.digest(),
        }


@functools.lru_cache(maxsize=8)
def _load(policy: SavedPolicy, digest: str) -> Policy:
    return load_policy(policy.folder, settings=dict(policy.settings), weights=policy.weights)


@dataclass(frozen=True)
class Team:
    """One arm of a comparison at one training seed."""

    arm: str
    training_seed: int | None
    """None where nothing in it was trained."""
    filler: SavedPolicy | None = None
    """Fills in what the operator does not hold; None: zeros."""
    operator: OperatorFactory | None = None
    """None: nobody, the filler acts alone."""
    see_operator: bool = True
    """Whether the filler is shown the operator's dims; they are carried out in any case."""

    def identity(self) -> dict[str, Any]:
        """What its episodes depend on besides the environment."""
        return {
            "filler": None if self.filler is None else self.filler.identity(),
            "operator": None if self.operator is None else self.operator.identity(),
            "see_operator": self.see_operator,
        }
