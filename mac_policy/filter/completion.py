"""What `ActionFilter` and its vector twin share: the policy completes commands, and `info` reports on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from mac_policy.filter.commands import CommandSpace
from mac_policy.filter.filler import Filler
from mac_policy.policies.checkpoint import load_policy
from mac_policy.policies.policy import Policy
from mac_policy.policies.spaces import Spaces, check_same


class Milliseconds(np.float64):
    """A measured duration, equal to any other: gymnasium's environment checker demands that equal steps give equal
    infos, and a duration is no property of the environment."""

    def __eq__(self, other: object) -> Any:
        return isinstance(other, Milliseconds) or super().__eq__(other)

    def __ne__(self, other: object) -> Any:
        return not self == other

    __hash__ = None  # type: ignore[assignment]


class Completion:
    """Completes the commands of `batch` environments with a policy and counts events per episode.

    observation, action: the spaces of one environment; settings: see `Filler`
    """

    def __init__(
        self,
        policy: Policy | str | Path,
        observation: spaces.Space[Any],
        action: spaces.Space[Any],
        operator_dims: Any,
        likelihood: bool,
        batch: int = 1,
        **settings: Any,
    ) -> None:
        if isinstance(observation, spaces.Dict):
            raise ValueError(
                f"the observation space is {observation}: wrap the environment in "
                "gymnasium.wrappers.FlattenObservation, which concatenates the entries"
            )
        have = Spaces.of(observation, action)
        ready = policy if isinstance(policy, Policy) else load_policy(policy)
        check_same(ready.spaces, have)
        if likelihood and not ready.has_likelihood:
            raise ValueError(f"likelihood=True needs a policy with one; a {ready.kind} policy has none")
        self.commands = CommandSpace(have.action, operator_dims, batch)
        self.filler = Filler(ready, batch, space=have.action, **settings)
        self.likelihood = likelihood
        self._fallback, self._invalid = np.zeros((2, batch), np.int64)
        self._observations: NDArray[np.float32] | None = None

    def begin(self, rows: NDArray[np.bool_]) -> None:
        """Begin new episodes in the rows (B,) that are true."""
        if rows.any():
            self.filler.reset(rows)
            self._fallback[rows] = self._invalid[rows] = 0

    def observe(self, observations: ArrayLike) -> None:
        """(B, obs) the observations to which the next commands respond."""
        self._observations = np.array(observations, np.float32)

    def __call__(self, action: Any) -> tuple[NDArray[Any], dict[str, NDArray[Any]]]:
        """The operator's action -> whole actions (B, n), and the entries of `info` with B values each."""
        if self._observations is None:
            raise gymnasium.error.ResetNeeded("call reset before the first step")
        filled = self.filler(self._observations, *self.commands.read(action))
        self._fallback += filled.fallback
        self._invalid += filled.invalid
        report: dict[str, NDArray[Any]] = {
            "action": filled.actions.copy(),
            "mask": filled.mask,
            "fill_ms": np.full(len(filled.fallback), filled.milliseconds),
            "fallback": filled.fallback,
            "invalid": filled.invalid,
            "fallback_steps": self._fallback.copy(),
            "invalid_steps": self._invalid.copy(),
        }
        if self.likelihood:
            report["log_likelihood"] = self.filler.log_likelihood(filled)
        return filled.actions, report
