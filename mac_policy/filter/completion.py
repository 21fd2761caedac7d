"""What `ActionFilter` and its vector twin share: the policy completes commands, and `info` reports on it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mac_policy.common.checks import check_flag
from mac_policy.common.labels import Codes, Label, is_said, unsaid
from mac_policy.filter.commands import CommandSpace
from mac_policy.filter.filler import Filled, Filler
from mac_policy.filter.reading import read_observations
from mac_policy.policies.checkpoint import load_policy
from mac_policy.policies.policy import Policy
from mac_policy.policies.spaces import Spaces, check_same


class Number(np.float64):
    """A number that equals another one where both are NaN: gymnasium's environment checker demands that equal steps
    give equal infos."""

    def __eq__(self, other: object) -> Any:
        return (isinstance(other, Number) and np.isnan(self) and np.isnan(other)) or super().__eq__(other)

    def __ne__(self, other: object) -> Any:
        return not self == other

    __hash__ = None  # type: ignore[assignment]


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
        check_flag("likelihood", likelihood)
        if likelihood and not ready.has_likelihood:
            raise ValueError(f"likelihood=True needs a policy with one; a {ready.kind} policy has none")
        names, labels = ready.spaces.actions.names, ready.labels
        self.commands = CommandSpace(have.action, operator_dims, batch, names, labels, ready.label_ranges)
        self._said = unsaid(labels, batch)
        self.filler = Filler(ready, batch, space=have.action, **settings)
        self.likelihood = likelihood
        self._fallback, self._invalid = np.zeros((2, batch), np.int64)
        self._unseen = np.full((batch, ready.observation_dim), np.nan, np.float32)
        self._observations: NDArray[np.float32] | None = None

    def say(self, labels: Mapping[str, Any]) -> None:
        """What a person says of some labels from now on, {name: class or number, or one for each row}; None takes one
        back. ValueError for what is no class, and for a number outside the demonstrated range."""
        codes = self.filler.policy.said(labels, self.filler.batch)
        self._said = np.where(self._named(labels), codes, self._said)

    def _named(self, labels: Any) -> NDArray[np.bool_]:
        """(L,): which labels are mentioned; codes mention all."""
        known = self.filler.policy.labels
        return np.array([not isinstance(labels, Mapping) or label.name in labels for label in known], bool)

    def said_at_reset(self, options: dict[str, Any] | None) -> tuple[Any, dict[str, Any] | None]:
        """The checked labels of the options of `reset`, and the options that are the environment's. Without labels of
        the policy all options are."""
        if not self.filler.policy.labels or options is None or "labels" not in options:
            return None, options
        self.filler.policy.said(options["labels"], self.filler.batch)
        return options["labels"], {name: value for name, value in options.items() if name != "labels"} or None

    def forget(self, rows: NDArray[np.bool_]) -> None:
        """What was said ends with the episodes of the rows (B,) that are true."""
        self._said = np.where(rows[:, None], unsaid(self.filler.policy.labels, len(rows)), self._said)

    def abandon(self, rows: NDArray[np.bool_]) -> None:
        """The episodes of the rows (B,) that are true end without a last step, and what was observed counts no more:
        the environment may raise while it is reset."""
        self.forget(rows)
        if self._observations is not None:
            self._observations = self._unseen

    def begin(self, rows: NDArray[np.bool_], labels: Any = None) -> None:
        """Begin new episodes in the rows (B,) that are true, with what is said of the labels; None: what was said since
        the last episode."""
        if rows.any():
            if labels is not None:
                codes = self.filler.policy.said(labels, self.filler.batch)
                self._said = np.where(rows[:, None] & self._named(labels), codes, self._said)
            self.filler.reset(rows)
            self._fallback[rows] = self._invalid[rows] = 0

    def observe(self, observations: Any) -> None:
        """(B, obs) the observations to which the next commands respond; (obs,) of a single environment. What is no
        array of this shape counts as NaN."""
        self._observations = read_observations(observations, self.filler.batch, self.filler.policy.observation_dim)

    def __call__(self, action: Any) -> tuple[NDArray[Any], dict[str, NDArray[Any]]]:
        """The operator's action -> whole actions (B, n), and the entries of `info` with B values each."""
        if self._observations is None:
            raise gymnasium.error.ResetNeeded("call reset before the first step")
        observations, self._observations = self._observations, self._unseen  # an observation serves one command
        labels = self.filler.policy.labels
        filled = self.filler(observations, *self.commands.read(action), self._told(action) if labels else None)
        self._fallback += filled.fallback
        self._invalid += filled.invalid
        report: dict[str, NDArray[Any]] = {
            "action": filled.actions.copy(),
            "mask": filled.mask,
            "fill_ms": np.full(len(filled.fallback), filled.milliseconds),
            "fallback": filled.fallback,
            "invalid": filled.invalid,
            "cause": filled.cause,
            "fallback_steps": self._fallback.copy(),
            "invalid_steps": self._invalid.copy(),
        }
        if labels:
            report |= self._intent(filled)
        if self.likelihood:
            report["log_likelihood"] = self.filler.log_likelihood(filled)
        return filled.actions, report

    def _intent(self, filled: Filled) -> dict[str, NDArray[Any]]:
        """The entries of `info` about the labels."""
        labels, report = self.filler.policy.labels, {}
        assumed = unsaid(labels, len(filled.mask)) if filled.assumed is None else filled.assumed
        for i, label in enumerate(labels):
            report[f"assumed/{label.name}"] = assumed[:, i].astype(np.int64 if isinstance(label, Label) else np.float64)
        return report | {f"belief/{label.name}": rows for label, rows in zip(labels, filled.beliefs, strict=False)}

    def _told(self, action: Any) -> Codes:
        """(B, L): what the action says of the labels, and what was said before of those that it does not say."""
        said, wrong = self.commands.said(action)
        self.filler.note_unknown(wrong)
        return self._said if said is None else np.where(is_said(self.filler.policy.labels, said), said, self._said)
