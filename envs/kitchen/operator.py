"""The kitchen's scripted expert: the demonstrator as an operator whose order of goals no policy is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from envs.kitchen.demonstrator import ScriptedExpert
from envs.kitchen.goals import goal_tasks, slide_before_hinge
from mac_policy.operators.dims import OperatorDims
from mac_policy.operators.operator import Command, HoldingOperator, random_stream


class ExpertOperator(HoldingOperator):
    """Completes the goals in an order drawn from each episode's seed, and commands the dims it holds.

    The operator reads the environments' simulators, whose state must be the one it acts in. After its last goal it
    releases its dims.

    >>> operator = ExpertOperator([env], OperatorDims.parse(4, 9), "kitchen-complete")   # doctest: +SKIP
    """

    def __init__(
        self, environments: Sequence[gymnasium.Env[Any, Any]], dims: OperatorDims, goals: str | Sequence[str]
    ) -> None:
        """`goals`: a goal set's name or a list of task names."""
        super().__init__(dims, len(environments))
        self.environments = list(environments)
        self.goals = goal_tasks(goals)
        self.orders: list[tuple[str, ...]] = [()] * self.batch
        """The order drawn for each row."""
        self._experts = [ScriptedExpert() for _ in environments]
        self.begin(np.ones(self.batch, bool), np.zeros(self.batch, np.int64))

    def begin(self, rows: NDArray[np.bool_], seeds: NDArray[np.int64]) -> None:
        super().begin(rows, seeds)
        for row in np.flatnonzero(rows):
            rng = random_stream("expert", seeds[row])
            self.orders[row] = slide_before_hinge([str(name) for name in rng.permutation(self.goals)])
            self._experts[row].reset(self.orders[row], rng)

    def values(self, observations: NDArray[np.float32]) -> NDArray[np.floating]:
        pairs = zip(self._experts, self.environments, strict=True)
        return np.stack([expert.act(None, env.unwrapped) for expert, env in pairs])

    def command(self, observations: NDArray[np.float32]) -> Command:
        found = super().command(observations)
        return found._replace(mask=found.mask & [[not expert.finished] for expert in self._experts])
