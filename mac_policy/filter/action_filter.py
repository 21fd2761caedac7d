"""A gymnasium wrapper: an operator commands some dims of the action, a policy fills in the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import ArrayLike, NDArray

from mac_policy.filter.command_space import CommandSpace
from mac_policy.filter.filler import Filler
from mac_policy.filter.report import Reporter
from mac_policy.policies.checkpoint import load_policy
from mac_policy.policies.policy import Policy
from mac_policy.policies.spaces import Spaces, check_same


class ActionFilter(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Completes an operator's command with a policy and steps the environment with the whole action.

    With `operator_dims` (k: the first k dims, or a list of dims) the wrapper's action consists of these dims alone;
    without, it is {"action": (n,), "mask": (n,)} and the mask may change at each step. `info["action_filter"]` holds
    - action (n,): the action carried out, and mask (n,): the dims in which it is the operator's;
    - fill_ms: milliseconds from the command to the action;
    - fallback, invalid: whether the last safe action was repeated, and whether because of the command (see `Filler`);
      fallback_steps, invalid_steps: how often in this episode;
    - log_likelihood, with `likelihood=True`: the policy's log-density of the command, given the observation.

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
            likelihood=likelihood,
            **settings,
        )
        gymnasium.Wrapper.__init__(self, env)
        ready, action_space = ready_policy(policy, env.observation_space, env.action_space)
        self.commands = CommandSpace(action_space, operator_dims)
        self.action_space = self.commands.space
        self.filler = Filler(ready, space=action_space, **settings)
        self.reporter = Reporter(self.filler, likelihood)
        self._observation: NDArray[np.float32] | None = None

    @property
    def counts(self) -> dict[str, int]:
        """Counts of events over all episodes; see `Filler`."""
        return self.filler.counts

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        if seed is not None:
            self.filler.seed(seed)
        self.filler.reset()
        self.reporter.reset(np.ones(1, bool))
        self._observation = np.array(observation, np.float32)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        if self._observation is None:
            raise gymnasium.error.ResetNeeded("call reset before the first step")
        filled = self.filler(self._observation[None], *self.commands.read(action))
        report = self.reporter.single(filled)
        observation, reward, terminated, truncated, info = self.env.step(filled.actions[0])
        self._observation = np.array(observation, np.float32)
        return observation, reward, terminated, truncated, {**info, "action_filter": report}


def ready_policy(
    policy: Policy | str | Path, observation: spaces.Space[Any], action: spaces.Space[Any]
) -> tuple[Policy, spaces.Box]:
    """The policy, loaded where a folder is named, and the action space, after a check of the policy's spaces."""
    if isinstance(observation, spaces.Dict):
        raise ValueError(
            f"the observation space is {observation}: wrap the environment in gymnasium.wrappers.FlattenObservation, "
            "which concatenates the entries"
        )
    have = Spaces.of(observation, action)
    ready = policy if isinstance(policy, Policy) else load_policy(policy)
    check_same(ready.spaces, have)
    return ready, have.action


def _plain(value: Any) -> Any:
    """As JSON can hold it, for the environment's spec."""
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
