"""A gymnasium wrapper: an operator commands some dims of the action, a policy fills in the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import ArrayLike

from mac_policy.common.checks import check_count
from mac_policy.common.labels import numbers
from mac_policy.filter.completion import Completion, Milliseconds, Number
from mac_policy.policies.policy import Policy


class ActionFilter(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Completes an operator's command with a policy and steps the environment with the whole action.

    With `operator_dims` (k: the first k dims, or a list of dims) the wrapper's action consists of these dims alone;
    without, it is {"action": (n,), "mask": (n,)} and the mask may change at each step. `info["action_filter"]` holds
    - action (n,): the action carried out, and mask (n,): the dims in which it is the operator's;
    - fill_ms: milliseconds from the command to the action;
    - fallback, invalid: whether the robot stands still in the dims not commanded, and whether because of the command
      (see `Filler`); cause: why it does, as `Filled.cause` says, '' where it does not;
      fallback_steps, invalid_steps: how often in this episode;
    - log_likelihood, with `likelihood=True`: the policy's log-density of the command, given the observation;
    - belief/<label> (K,), assumed/<label>: for each categorical label of the policy what is believed of its classes,
      and the number of the class that is assumed, -1 for none; for a label of real values, which has no belief, the
      number that was said, NaN for none.

    Of a policy with labels a person may say one, `say(task="kettle")` or `reset(options={"labels": {...}})`, or, with
    a mask at each step, in the action, which then has an entry for each label; -1 stands for a class that the action
    does not say, and the entry "said" tells which numbers it says. Of what an action does not say counts what was said
    before. A class that nobody has said the policy infers. What was said ends with the episode; what is said between
    two episodes counts for the next.

    >>> # needs an environment and a policy trained for it
    >>> env = ActionFilter(gymnasium.make("FrankaReach-v0"), "runs/reach/mac-s0", operator_dims=2)  # doctest: +SKIP
    >>> observation, info = env.reset(seed=0)                                                       # doctest: +SKIP
    >>> observation, *_ = env.step(np.array([0.1, -0.3]))                                           # doctest: +SKIP
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        policy: Policy | str | Path,
        operator_dims: Any = None,
        *,
        temperature: float | None = None,
        deterministic: bool = False,
        max_change: ArrayLike | None = None,
        deadline_ms: float | None = None,
        likelihood: bool = False,
        see_operator: bool = True,
        rest: ArrayLike | None = None,
        seed: int = 0,
    ) -> None:
        """policy: a policy made for the environment's spaces, or its folder; the other settings: see `Filler`"""
        settings: dict[str, Any] = {
            "likelihood": likelihood,
            "temperature": temperature,
            "deterministic": deterministic,
            "max_change": _plain(max_change),
            "deadline_ms": deadline_ms,
            "see_operator": see_operator,
            "rest": _plain(rest),
            "seed": seed,
        }
        RecordConstructorArgs.__init__(
            self,
            _disable_deepcopy=True,  # the weights are not copied
            policy=policy if isinstance(policy, Policy) else str(policy),
            operator_dims=_plain(operator_dims),
            **settings,
        )
        gymnasium.Wrapper.__init__(self, env)
        self.completion = Completion(policy, env.observation_space, env.action_space, operator_dims, **settings)
        self.action_space = self.completion.commands.space
        self._ended = True  # there is no episode before the first reset
        self._numbers = [label.name for label in numbers(self.completion.filler.policy.labels)]

    @property
    def counts(self) -> dict[str, int]:
        """Counts of events over all episodes; see `Filler`."""
        return self.completion.filler.counts

    def say(self, **labels: str | float | None) -> None:
        """What is wanted from now on: `say(task="kettle")`, `say(kettle_x=0.3)`; None takes a label back."""
        self.completion.say(labels)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        labels, rest = self.completion.said_at_reset(options)  # before the environment is reset
        if seed is not None:
            check_count("seed", seed, 0)
        self.completion.abandon(np.array([not self._ended]))
        self._ended = True
        observation, info = self.env.reset(seed=seed, options=rest)
        if seed is not None:
            self.completion.filler.seed(seed)
        self._ended = False
        self.completion.begin(np.ones(1, bool), labels)
        self.completion.observe(observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        actions, entries = self.completion(action)
        report: dict[str, Any] = {key: rows[0] if rows.ndim > 1 else rows.item() for key, rows in entries.items()}
        report["fill_ms"] = Milliseconds(report["fill_ms"])
        report |= {f"assumed/{name}": Number(report[f"assumed/{name}"]) for name in self._numbers}
        observation, reward, terminated, truncated, info = self.env.step(actions[0])
        self._ended = bool(terminated or truncated)
        self.completion.forget(np.array([self._ended]))
        self.completion.observe(observation)
        return observation, reward, terminated, truncated, {**info, "action_filter": report}


def _plain(value: Any) -> Any:
    """A value that JSON can hold, for the environment's spec."""
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
