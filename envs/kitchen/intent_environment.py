"""The kitchen in which somebody wants some of the seven tasks, which no observation shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from envs.kitchen.environment import KitchenEnv
from envs.kitchen.goals import CANONICAL_ORDER
from envs.kitchen.intent import NOTHING, check_intent, check_size, draw_intent, intent_of_seed, present_wish
from envs.kitchen.strokes import distances_to

APPROACH = 0.05
"""Metres by which the tool comes nearer to a newly wanted object when it follows."""


class Change(NamedTuple):
    """A change of the intent within an episode."""

    step: int
    wish: str
    """What was wanted next after it."""
    followed_at: int | None = None


class IntentKitchen(KitchenEnv):
    """The kitchen with all seven tasks, of which some are wanted, in an order.

    Reward: the number of wanted tasks newly completed by the step, in whatever order. An episode terminates when all
    wanted tasks are completed. The seed of `reset` draws the intent; `reset(options={"intent": [...]})` states it.
    `info` holds, besides `completed` and `is_success`,
    - intent: the wanted tasks in the wanted order;
    - wanted, unwanted: the completed tasks that are in the intent and those that are not;
    - changed_at: the step at which `want` changed the intent, None if it did not;
    - followed_after: the number of steps from then until the tool had come `APPROACH` metres nearer to what was wanted
      next, or had done it; None while it has not.

    >>> env = make("kitchen-intent")                                   # doctest: +SKIP
    >>> env.reset(seed=10_000)[1]["intent"]                            # doctest: +SKIP
    ('light switch', 'microwave', 'top burner', 'hinge cabinet')
    """

    def __init__(self, *, intent: Sequence[str] | None = None, wanted: int = 4, **kitchen: Any) -> None:
        """intent: the wanted tasks of every episode; None draws `wanted` of them; kitchen: see `KitchenEnv`"""
        self.intent: tuple[str, ...] = ()
        self._steps = 0
        self._change: Change | None = None
        self._start = 0.0
        self._stated = None if intent is None else check_intent(intent)
        self._size = check_size(wanted)
        super().__init__(CANONICAL_ORDER, **kitchen)

    def want(self, intent: Sequence[str]) -> None:
        """Change what is wanted from now on. What was completed counts as wanted where it is in the new intent."""
        self.intent = check_intent(intent)
        if self._steps:
            self._change = Change(self._steps, present_wish(self.intent, self._completed))
            self._start = self._away()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        self._steps, self._change = 0, None
        observation, _ = super().reset(seed=seed, options=options)
        stated = (options or {}).get("intent", self._stated)
        if stated is not None:
            self.intent = check_intent(stated)
        elif seed is not None:
            self.intent = intent_of_seed(seed, self._size)
        else:
            self.intent = draw_intent(self.np_random, self._size)
        return observation, self._info()

    def step(self, action: NDArray[np.floating]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        before = len(self._completed)
        self._steps += 1
        observation, _, terminated, truncated, info = super().step(action)
        reward = sum(name in self.intent for name in self._completed[before:])
        return observation, float(reward), terminated, truncated, info

    def _info(self) -> dict[str, Any]:
        wanted = tuple(name for name in self._completed if name in self.intent)
        return {
            "completed": self._completed,
            "is_success": len(wanted) == len(self.intent),
            "intent": self.intent,
            "wanted": wanted,
            "unwanted": tuple(name for name in self._completed if name not in self.intent),
            "changed_at": None if self._change is None else self._change.step,
            "followed_after": self._followed_after(),
        }

    def _followed_after(self) -> int | None:
        """Steps from a change of the intent until the tool had come `APPROACH` nearer to what is wanted since, or had
        done it; None before that."""
        change = self._change
        if change is not None and change.followed_at is None:
            done = change.wish in self._completed or change.wish == NOTHING
            if done or self._away() < self._start - APPROACH:
                self._change = change = change._replace(followed_at=self._steps)
        return None if change is None or change.followed_at is None else change.followed_at - change.step

    def _away(self) -> float:
        """Metres from the tool to what is wanted since the change."""
        wish = NOTHING if self._change is None else self._change.wish
        return 0.0 if wish == NOTHING else distances_to(self.data, [wish])[wish]
