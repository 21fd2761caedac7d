"""The kitchen's scripted expert: the demonstrator as an operator whose intent no policy is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from envs.kitchen.demonstrator import CooperativeExpert, ScriptedExpert
from envs.kitchen.goals import CANONICAL_ORDER, goal_tasks, slide_before_hinge
from envs.kitchen.intent import NOTHING, changed_intent
from mac_policy.operators.dims import OperatorDims
from mac_policy.operators.operator import Command, HoldingOperator, random_stream

CHANGE = (30, 150)
"""The steps between which an operator changes its mind, drawn once an episode."""


class ExpertOperator(HoldingOperator):
    """Completes goals in an order of its own, and commands the dims it holds.

    The operator reads the environments' simulators, whose state must be the one it acts in. After its last goal it
    releases its dims. Where the environment has an intent, that is what the operator wants, in this order; elsewhere
    the order of the goals is drawn from each episode's seed.

    >>> operator = ExpertOperator([env], OperatorDims.parse(4, 9), "kitchen-complete")   # doctest: +SKIP
    """

    def __init__(
        self,
        environments: Sequence[gymnasium.Env[Any, Any]],
        dims: OperatorDims,
        goals: str | Sequence[str],
        *,
        cooperative: bool = False,
        changes_mind: bool = False,
    ) -> None:
        """goals: a goal set's name or a list of task names
        cooperative: pursues the goal that the arm is nearest to, whatever the order
        changes_mind: at a random step wants other tasks in place of those that are left; needs an intent
        """
        super().__init__(dims, len(environments))
        self.environments = list(environments)
        self.goals = goal_tasks(goals)
        self.cooperative, self.changes_mind = cooperative, changes_mind
        self.orders: list[tuple[str, ...]] = [()] * self.batch
        """What each row wants."""
        self._experts = [CooperativeExpert() if cooperative else ScriptedExpert() for _ in environments]
        self._changes_at = np.full(self.batch, -1)
        self._preferences: list[tuple[str, ...]] = [()] * self.batch
        self.begin(np.ones(self.batch, bool), np.zeros(self.batch, np.int64))

    def begin(self, rows: NDArray[np.bool_], seeds: NDArray[np.int64]) -> None:
        super().begin(rows, seeds)
        for row in np.flatnonzero(rows):
            rng = random_stream("expert", seeds[row])
            drawn = slide_before_hinge([str(name) for name in rng.permutation(self.goals)])
            self.orders[row] = getattr(self.environments[row].unwrapped, "intent", ()) or drawn
            self._experts[row].reset(self.orders[row], rng)
            if self.changes_mind:
                rng = random_stream("changes mind", seeds[row])
                self._changes_at[row] = rng.integers(*CHANGE)
                self._preferences[row] = tuple(map(str, rng.permutation(CANONICAL_ORDER)))

    def wanted(self) -> list[str | None]:
        pairs = zip(self._experts, self.environments, strict=True)
        return [expert.wish(env.unwrapped.completed, env.unwrapped) or NOTHING for expert, env in pairs]

    def values(self, observations: NDArray[np.float32]) -> NDArray[np.floating]:
        if self.dims.fixed == () and not self.cooperative:  # nothing of it counts, not even what it is nearest to
            return np.zeros((self.batch, self.action_dim))
        pairs = zip(self._experts, self.environments, strict=True)
        return np.stack([expert.act(None, env.unwrapped) for expert, env in pairs])

    def command(self, observations: NDArray[np.float32]) -> Command:
        for row in np.flatnonzero(self._steps == self._changes_at):
            self._change_mind(row)
        found = super().command(observations)
        return found._replace(mask=found.mask & [[not expert.finished] for expert in self._experts])

    def _change_mind(self, row: int) -> None:
        kitchen, expert = self.environments[row].unwrapped, self._experts[row]
        present = expert.wish(kitchen.completed, kitchen)
        if present is not None:
            kitchen.want(changed_intent(kitchen.intent, kitchen.completed, present, self._preferences[row]))
            self.orders[row] = kitchen.intent
            expert.want([name for name in kitchen.intent if name not in kitchen.completed], kitchen)
