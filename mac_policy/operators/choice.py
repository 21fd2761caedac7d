"""Which operator a measurement is made with, as plain data that travels to worker processes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mac_policy.common.checks import check_choice, is_number
from mac_policy.common.digest import file_sha256
from mac_policy.evaluation.teams import Environment, SavedPolicy
from mac_policy.operators.dims import OperatorDims
from mac_policy.operators.operator import Operator
from mac_policy.operators.registry import OPERATORS, WRAPPED, make_operator

INNER = tuple(kind for kind in OPERATORS if kind not in WRAPPED)


class Expert(Protocol):
    """Makes the scripted expert of a task for its environments; a frozen dataclass, so that it can be compared."""

    def __call__(self, environments: Sequence[Environment], dims: OperatorDims) -> Operator: ...

    def identity(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class OperatorChoice:
    """kind: a name of `OPERATORS`
    dims: what is held
    inner: of noisy, laggy and dropout: the operator that they change, with probability p a step
    path: of sb3 the checkpoint, of replay a .npy with (T, n) actions or a .npz with several
    policy: of bc the policy folder
    expert: of expert
    """

    kind: str
    dims: OperatorDims
    inner: str = "bc"
    p: float = 0.3
    path: str | None = None
    policy: SavedPolicy | None = None
    expert: Expert | None = None

    def __post_init__(self) -> None:
        check_choice("operator", self.kind, OPERATORS)
        check_choice("inner operator", self.inner, INNER)
        if self.kind in WRAPPED and not (is_number(self.p) and 0 <= self.p <= 1):
            raise ValueError(f"operator.p must be a probability in [0, 1], got {self.p!r}")
        if self.base in ("sb3", "replay"):
            if not self.path:
                raise ValueError(f"operator={self.base} needs operator.path")
            if not Path(self.path).is_file():
                raise ValueError(f"operator.path={self.path}: there is no such file")

    @property
    def base(self) -> str:
        """Who commands, before anything goes wrong."""
        return self.inner if self.kind in WRAPPED else self.kind

    @property
    def needs_policy(self) -> bool:
        return self.base == "bc"

    def with_policy(self, policy: SavedPolicy) -> OperatorChoice:
        """The same with a policy folder."""
        return dataclasses.replace(self, policy=policy)

    def holding_all(self) -> OperatorChoice:
        """The same with all dims in its hands."""
        n = self.dims.action_dim
        return dataclasses.replace(self, dims=OperatorDims.parse(n, n))

    def check(self, space: spaces.Box) -> None:
        """ValueError when a file that it needs cannot be used."""
        if self.base in ("sb3", "replay"):
            self._make(space, 1)

    def __call__(self, environments: Sequence[Environment]) -> Operator:
        space = environments[0].action_space
        if not isinstance(space, spaces.Box):
            raise ValueError(f"an operator needs a Box of actions, the environment has {space}")
        return self._make(space, len(environments), environments)

    def _make(self, space: spaces.Box, batch: int, environments: Sequence[Environment] = ()) -> Operator:
        return make_operator(
            self.kind,
            self.dims,
            batch,
            policy=self.policy.load() if self.needs_policy and self.policy else None,
            expert=None if self.expert is None else self._expert(environments),
            model=self.path if self.base == "sb3" else None,
            actions=read_recordings(self.path) if self.base == "replay" and self.path else None,
            inner=self.inner,
            p=self.p,
            space=space,
        )

    def _expert(self, environments: Sequence[Environment]) -> Any:
        return lambda dims: self.expert(environments, dims) if self.expert else None

    def identity(self) -> dict[str, Any]:
        """What the commands depend on; settings that this kind does not read are left out."""
        found: dict[str, Any] = {"kind": self.kind, "dims": str(self.dims)}
        if self.kind in WRAPPED:
            found |= {"inner": self.inner, "p": self.p}
        if self.needs_policy and self.policy is not None:
            found["policy"] = self.policy.identity()
        if self.base == "expert" and self.expert is not None:
            found["expert"] = self.expert.identity()
        if self.base in ("sb3", "replay") and self.path:
            found["file"] = file_sha256(Path(self.path))
        return found

    @property
    def label(self) -> str:
        """In a word or three, for a title."""
        return f"{self.kind} {self.inner}, p={self.p:g}" if self.kind in WRAPPED else self.kind

    def describe(self) -> str:
        """In words, for a table."""
        who = {
            "bc": "a behaviour-cloning policy",
            "expert": "the scripted expert with an intent of its own that no policy is told",
            "zeros": "nobody: its dims are held at zero",
            "replay": f"a recording ({self.path})",
            "sb3": f"a stable-baselines3 model ({self.path})",
        }[self.base]
        what = {
            "noisy": f", at each step with probability {self.p:g} a random action instead",
            "laggy": f", at each step with probability {self.p:g} its last command again",
            "dropout": f", letting go and taking hold again with probability {self.p:g} a step",
        }.get(self.kind, "")
        return who + what


def read_recordings(path: str) -> list[NDArray[np.float32]]:
    """The recorded actions (T, n) of a .npy, or those of a .npz."""
    try:
        found = np.load(path, allow_pickle=False)
        arrays = [found] if isinstance(found, np.ndarray) else [found[name] for name in found.files]
        return [np.asarray(array, np.float32) for array in arrays]
    except (ValueError, EOFError) as error:
        raise ValueError(f"operator.path={path} holds no recorded actions (.npy or .npz): {error}") from error
