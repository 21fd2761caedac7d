"""The vector form of `ActionFilter`: one call of the policy fills in the actions of all environments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike

from mac_policy.common.checks import check_count
from mac_policy.filter.completion import Completion
from mac_policy.policies.policy import Policy


class VectorActionFilter(VectorWrapper):
    """`ActionFilter` for vectors of environments; the operator may hold different dims in each.

    `info["action_filter"]` has the layout that `ActionFilter`s in a SyncVectorEnv give: an array for each entry, with
    "_entry" for the environments that have the entry. `fill_ms` is the time of the one call for all environments.

    >>> # needs environments and a policy trained for them
    >>> envs = VectorActionFilter(gymnasium.make_vec("FrankaReach-v0", 8), "runs/reach/mac-s0")   # doctest: +SKIP
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
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
        """policy: a policy made for the environments' spaces, or its folder; the other settings: see `Filler`"""
        super().__init__(env)
        self.completion = Completion(
            policy,
            env.single_observation_space,
            env.single_action_space,
            operator_dims,
            likelihood,
            env.num_envs,
            temperature=temperature,
            deterministic=deterministic,
            max_change=max_change,
            deadline_ms=deadline_ms,
            see_operator=see_operator,
            rest=rest,
            seed=seed,
        )
        self.single_action_space = self.completion.commands.space
        self.action_space = batch_space(self.single_action_space, env.num_envs)
        self.autoreset = AutoresetMode(env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP))
        self._ended = np.ones(env.num_envs, bool)  # there is no episode before the first reset

    @property
    def counts(self) -> dict[str, int]:
        """Counts of events over all episodes; see `Filler`."""
        return self.completion.filler.counts

    def say(self, **labels: Any) -> None:
        """What is wanted from now on, one class for all environments or one for each: `say(task=["kettle", None])`."""
        self.completion.say(labels)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        rows = np.array((options or {}).get("reset_mask", np.ones(self.num_envs)), bool)
        labels, rest = self.completion.said_at_reset(options)  # before the environments are reset
        for each in seed if isinstance(seed, (list, tuple)) else [seed]:
            if each is not None:
                check_count("seed", each, 0)
        self.completion.abandon(rows & ~self._ended)
        self._ended = self._ended | rows
        observations, info = self.env.reset(seed=seed, options=rest)  # type: ignore[arg-type]
        first = seed[0] if isinstance(seed, (list, tuple)) else seed
        if first is not None:
            self.completion.filler.seed(first)
        self.completion.begin(rows, labels)
        self._ended = self._ended & ~rows
        self.completion.observe(observations)
        return observations, info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        whole, report = self.completion(actions)
        observations, rewards, terminations, truncations, info = self.env.step(whole)
        ended = np.asarray(terminations | truncations, bool)
        self.completion.forget(ended)
        stepped = np.ones(self.num_envs, bool)
        if self.autoreset is AutoresetMode.NEXT_STEP:  # environments that ended before were reset and not stepped
            stepped = ~self._ended
            self.completion.begin(self._ended)
        elif self.autoreset is AutoresetMode.SAME_STEP:
            self.completion.begin(ended)
        self._ended = ended
        # gymnasium's layout: "_name" for the environments that have the entry `name`
        entries = {**report, **{f"_{name}": stepped.copy() for name in report}}
        info = {**info, "action_filter": entries, "_action_filter": stepped}
        self.completion.observe(observations)
        return observations, rewards, terminations, truncations, info
