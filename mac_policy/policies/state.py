"""What a policy remembers between steps, row by row, so that batched rollouts reset independently."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor


@dataclass
class PolicyState:
    """B rows, one for each environment. Made by `Policy.initial_state`, returned anew by `Policy.step`."""

    history: NDArray[np.float32]
    """(B, history, obs): the last observations, oldest first."""
    plan: NDArray[np.float32]
    """(B, horizon, act): the chunk being carried out, in the action space."""
    age: NDArray[np.int64]
    """(B,): steps of the plan already carried out."""
    fresh: NDArray[np.bool_]
    """(B,): rows at the start of an episode, which have neither history nor plan."""
    noise: Tensor | None = None
    """(B, ...): the randomness held across steps, for policies that hold some."""

    def reset(self, rows: NDArray[np.bool_]) -> PolicyState:
        """The state with the given rows (B,) put back to the start of an episode."""
        return PolicyState(self.history, self.plan, self.age, self.fresh | rows, self.noise)

    def __len__(self) -> int:
        return len(self.age)
