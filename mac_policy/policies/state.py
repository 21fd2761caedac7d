"""The memory of a policy between steps, row by row, so that the rows of a batch reset independently."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mac_policy.common.labels import Codes


@dataclass
class PolicyState:
    """The memory of B rows, one per environment; made by `Policy.initial_state`, returned anew by `Policy.step`.

    >>> import numpy as np
    >>> from mac_policy import make_policy, Spaces
    >>> from gymnasium.spaces import Box
    >>> state = make_policy("bc", Spaces.of(Box(-1, 1, (3,)), Box(-1, 1, (2,))), {"width": 8}).initial_state(2)
    >>> state.reset(np.array([True, False])).fresh
    array([ True,  True])
    """

    history: NDArray[np.float32]
    """(B, history, obs): the last observations, oldest first."""
    plan: NDArray[np.float32]
    """(B, horizon, act): the chunk being carried out: actions, or the targets of an absolute policy."""
    age: NDArray[np.int64]
    """(B,): number of steps of the plan already carried out."""
    fresh: NDArray[np.bool_]
    """(B,): rows at the start of an episode, without history and plan."""
    noise: Tensor | None = None
    """(B, ...): random numbers kept across steps, for policies that keep some."""
    beliefs: tuple[NDArray[np.float64], ...] = ()
    """(B, K) for each categorical label that the policy infers: what is believed of its classes."""
    assumed: Codes | None = None
    """(B, L): what the plan serves: of each label the class, -1 for none, or the number that was said, NaN for none;
    None without labels."""

    listening: NDArray[np.bool_] | None = None
    """(B,): rows whose beliefs are those of this episode; None without labels."""

    def check(self, n: int, history: int, horizon: int, observation_dim: int, action_dim: int) -> None:
        """ValueError where this is no state of n rows of a policy of these sizes."""
        if type(self.age) is np.ndarray and self.age.ndim == 1 and len(self) != n:
            raise ValueError(f"the state has {len(self)} rows, the observations {n}")
        wanted = (
            ("history", self.history, (n, history, observation_dim), "f"),
            ("plan", self.plan, (n, horizon, action_dim), "f"),
            ("age", self.age, (n,), "i"),
            ("fresh", self.fresh, (n,), "b"),
        )
        for name, found, shape, kind in wanted:
            if type(found) is not np.ndarray or found.shape != shape or found.dtype.kind != kind:
                raise ValueError(f"the state's {name} must be an array {shape}, as this policy makes it")
        if np.count_nonzero(self.age < 0):
            raise ValueError(f"the state's age must be at least 0, got {self.age.min()}")

    def reset(self, rows: NDArray[np.bool_]) -> PolicyState:
        """The state with the rows (B,) that are true put back to the start of an episode."""
        listening = None if self.listening is None else self.listening & ~rows
        return replace(self, fresh=self.fresh | rows, listening=listening)

    def without_step(self, rows: NDArray[np.bool_], before: PolicyState) -> PolicyState:
        """The state in which the last step did not happen in these rows (B,): history and plan begin anew, beliefs
        and what is assumed are those of the state `before` it."""
        state = replace(self, fresh=self.fresh | rows)
        if self.listening is None:
            return state
        if before.listening is None or not before.beliefs:
            return replace(state, listening=self.listening & ~rows)
        pairs = zip(self.beliefs, before.beliefs, strict=True)
        beliefs = tuple(np.where(rows[:, None], old, new) for new, old in pairs)
        assumed = self.assumed
        if assumed is not None and before.assumed is not None:
            assumed = np.where(rows[:, None], before.assumed, assumed)
        listening = np.where(rows, before.listening, self.listening)
        return replace(state, beliefs=beliefs, assumed=assumed, listening=listening)

    def carried_out(self, actions: NDArray[np.floating]) -> PolicyState:
        """The state after these steps (B, act) were carried out in place of the planned ones."""
        plan, begun = self.plan.copy(), np.flatnonzero(~self.fresh)
        plan[begun, np.maximum(self.age[begun] - 1, 0)] = actions[begun]
        return replace(self, plan=plan)

    def __len__(self) -> int:
        return len(self.age)
