"""Completes an operator's command to a whole action that is safe to carry out, whatever goes wrong.

`ActionFilter`, `VectorActionFilter` and the rollouts use the same `Filler`.
"""

from __future__ import annotations

import contextlib
import functools
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from mac_policy.common.checks import check_count, check_flag, check_positive, check_range
from mac_policy.common.labels import Codes, categories, unsaid
from mac_policy.common.numeric import as_numbers
from mac_policy.filter.commands import Usable, usable_command
from mac_policy.filter.deadline import Deadline, Late
from mac_policy.filter.hand_over import HandOver
from mac_policy.filter.reading import FAULTS
from mac_policy.policies.inputs import check_request
from mac_policy.policies.policy import Policy
from mac_policy.policies.state import PolicyState

LONGEST_DEADLINE = 86_400_000.0
"""Milliseconds: a day. A thread cannot wait for any time."""
COUNTED = ("calls", "fallback", "invalid", "clipped", "blind", "failed", "late", "broken", "unknown")

STILL = "the robot stands still"


class Filled(NamedTuple):
    """The whole actions of one step."""

    actions: NDArray[Any]
    """(B, n), inside the action space."""
    milliseconds: float
    """From the command to the action, for all rows together."""
    fallback: NDArray[np.bool_]
    """(B,): rows that stand still in all dims that are not commanded."""
    invalid: NDArray[np.bool_]
    """(B,): rows whose command was not usable as it was."""
    mask: NDArray[np.bool_]
    """(B, n): the dims in which the operator's command was carried out."""
    cause: NDArray[np.str_]
    """(B,): why a row stands still, '' where it does not: the first that is true of 'invalid' (the command), 'blind'
    (the observation), 'late', 'failed' and 'broken' (the policy)."""
    beliefs: tuple[NDArray[np.float64], ...] = ()
    """(B, K) for each category that the policy infers; NaN in rows that have not answered in this episode."""
    assumed: Codes | None = None
    """(B, L): what the answer serves: of each label the class, -1 for none, or the number that was said, NaN for none;
    None for a policy without labels."""


class Filler:
    """Fills in the actions of `batch` environments with one call of the policy per step.

    Commanded values are carried out bit for bit; finite values outside the action space are clipped to it. A row
    falls back to standing still (`Variables.still`: towards its last target where actions have one, else its last safe
    action again), or to `rest` before its first action, where
    - the command is NaN, infinite, of the wrong size or not numeric (the row is `invalid`);
    - the observation is NaN or infinite;
    - the policy raises an error or SystemExit, returns NaN or infinity, or has not answered after `deadline_ms`.
    The usable part of the command is carried out in any case. Each of these events raises a RuntimeWarning the first
    time and is counted in `counts`: calls, and the rows in fallback, invalid, clipped, blind (observations that cannot
    be used), failed, late and broken (answers that are not finite), and unknown (labels that name no class or no finite
    number, which count as not said).

    >>> filler = Filler(policy, batch=8)                                # doctest: +SKIP
    >>> actions = filler(observations, command, mask).actions            # doctest: +SKIP
    """

    def __init__(
        self,
        policy: Policy,
        batch: int = 1,
        *,
        see_operator: bool = True,
        deterministic: bool = False,
        temperature: float | None = None,
        max_change: ArrayLike | None = None,
        deadline_ms: float | None = None,
        rest: ArrayLike | None = None,
        seed: int = 0,
        space: spaces.Box | None = None,
    ) -> None:
        """
        see_operator: False hides the command from the policy; the command is carried out all the same
        deterministic, temperature: as in `Policy.act`
        max_change: after a row's mask changed, filled-in dims move at most this much per step (one number or one per
            dim, in units of the action) until they have caught up with the policy; None: no limit
        deadline_ms: milliseconds that the policy may take
        rest: (n,) the fallback before a row's first action; by default the action nearest to zero
        seed: of the random draws of a policy that samples
        space: the action space; by default the policy's
        """
        check_request(deterministic, temperature, None)
        check_flag("see_operator", see_operator)
        self.policy, self.batch = policy, check_count("batch", batch)
        self.see_operator, self.deterministic, self.temperature = see_operator, deterministic, temperature
        self.space = space or policy.spaces.action
        self.rest = _resting(rest, self.space.low, self.space.high)
        self.deadline = None if deadline_ms is None else Deadline(check_deadline(deadline_ms))
        self.hand_over = None if max_change is None else HandOver(max_change, batch, policy.action_dim)
        self.counts: dict[str, int] = dict.fromkeys(COUNTED, 0)
        self._warned: set[str] = set()
        self._no_cause: NDArray[np.str_] = np.zeros(batch, "<U7")
        self._no_cause.flags.writeable = False
        self._cause = self._no_cause
        self._generator = torch.Generator()
        self.seed(seed)
        self.reset()
        if self.deadline is not None:
            self._warm_up(self.deadline)

    def seed(self, seed: int) -> None:
        """Seed the random draws of a policy that samples."""
        self._generator.manual_seed(check_count("seed", seed, 0))

    def reset(self, rows: NDArray[np.bool_] | None = None) -> None:
        """Begin a new episode in the rows (B,) that are true; by default in all."""
        if rows is None:
            self._state: PolicyState = self.policy.initial_state(self.batch)
            self._last = np.tile(self.rest, (self.batch, 1))
            self._places = np.full(self._last.shape, np.nan, np.float32)
            self._acted = np.zeros(self.batch, bool)
            rows = np.ones(self.batch, bool)
        else:
            self._state = self._state.reset(rows)
            self._last = np.where(rows[:, None], self.rest, self._last)
            self._places[rows] = np.nan
            self._acted = self._acted & ~rows
        if self.hand_over is not None:
            self.hand_over.reset(rows)

    def __call__(self, observations: ArrayLike, command: ArrayLike, mask: ArrayLike, labels: Any = None) -> Filled:
        """(B, obs), the command (B, n), of which the values count where the mask (B, n) is true, and what is said of
        the policy's labels, as `Policy.act` takes it."""
        began = time.perf_counter()
        observations = np.asarray(observations, np.float32)
        if observations.shape != (self.batch, self.policy.observation_dim):
            raise ValueError(
                f"observations must be ({self.batch}, {self.policy.observation_dim}), got {observations.shape}"
            )
        blind = ~np.logical_and.reduce(np.isfinite(observations), axis=1)
        if np.count_nonzero(blind):
            observations = np.where(np.isfinite(observations), observations, np.float32(np.nan))
        usable = usable_command(command, mask, self.batch, self.space)
        self._cause = self._no_cause
        self._said = self._labels(labels)
        wanted, fallback = self._wanted(observations, usable, blind)
        if self.hand_over is not None:
            wanted = self.hand_over(wanted, self._last, usable.mask, fallback)
        actions = np.where(usable.mask, usable.command, wanted)
        if self.see_operator and (np.count_nonzero(fallback) or self.hand_over is not None):
            # A blind policy remembers its own: commands stay hidden.
            self._remember(actions, observations)
        self._last = actions.copy()  # an environment may scale its action in place
        self._acted[:] = True
        if self.policy.variables.known.has_targets:
            places = self.policy.variables.places(observations, actions)
            self._places = np.where(np.isnan(places), self._places, places)  # a blind row is going where it was
        self.counts["calls"] += 1
        self.counts["fallback"] += np.count_nonzero(fallback)
        milliseconds = 1e3 * (time.perf_counter() - began)
        intent = self._intent(fallback)
        return Filled(actions, milliseconds, fallback, usable.invalid, usable.mask, self._cause, *intent)

    def _remember(self, actions: NDArray[Any], observations: NDArray[np.float32]) -> None:
        """Tell the policy's memory which actions (B, n) were carried out in place of its own."""
        try:
            self._state = self.policy.carried_out(self._state, actions, observations)
        except FAULTS as error:
            self._fail(error, "its plan is dropped")
            self._state = self._state.reset(np.ones(self.batch, bool))

    def _intent(self, fallback: NDArray[np.bool_]) -> tuple[tuple[NDArray[np.float64], ...], Codes | None]:
        """The beliefs of the present episodes, NaN before there are any, and what the answers serve."""
        state = self._state
        if state.assumed is None:
            return (), None
        assumed = np.where(fallback[:, None], unsaid(self.policy.labels, self.batch), state.assumed)
        if state.listening is None:
            return (), assumed
        listening = state.listening[:, None]
        return tuple(np.where(listening, belief, np.nan) for belief in state.beliefs), assumed

    def note_unknown(self, rows: NDArray[np.bool_]) -> None:
        """Count the rows (B,) that said something of a label that is no class of it, or no finite number."""
        self._note("unknown", rows, "a label names no class of it, or no finite number", "it counts as not said")

    def _labels(self, labels: Any) -> Codes | None:
        """(B, L): what is said of the policy's labels, None without labels."""
        if labels is None or not self.policy.labels:
            return None
        try:
            return self.policy.said(labels, self.batch)
        except ValueError as error:
            self._note("unknown", np.ones(self.batch, bool), str(error), "no label counts as said")
            return None

    def log_likelihood(self, filled: Filled) -> NDArray[np.float64]:
        """(B,): the policy's log-density of the operator's command in the step just filled, given the observations
        alone; 0 where nothing was commanded, NaN for rows in fallback."""
        if filled.fallback.all():  # a late call may still be running
            return np.full(self.batch, np.nan)
        try:
            found = self.policy.log_prob(self._state.history, filled.actions, query=filled.mask)
        except FAULTS as error:
            self._fail(error, "the likelihood is NaN")
            return np.full(self.batch, np.nan)
        return np.where(filled.fallback, np.nan, found)

    def _wanted(
        self, observations: NDArray[np.float32], usable: Usable, blind: NDArray[np.bool_]
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """(B, n) actions before the command is put in, and the rows (B,) in fallback."""
        self._note("invalid", usable.invalid, "the operator's command is not finite or has the wrong size")
        self._note("clipped", usable.clipped, "the operator's command lies outside the action space", "it is clipped")
        self._note("blind", blind, "the observation is NaN or cannot be read")
        before = self._state
        planned = self._planned(
            np.where(blind[:, None], 0, observations) if np.count_nonzero(blind) else observations, usable
        )
        if planned is None:
            return self._still(observations), np.ones(self.batch, bool)
        inside = np.minimum(np.maximum(planned, self.space.low), self.space.high)
        broken = np.logical_or.reduce(~np.isfinite(planned), axis=1)
        self._note("broken", broken, "the policy returned NaN or infinity")
        if np.count_nonzero(forgotten := broken | blind):  # also the zeros shown in place of a NaN observation
            self._state = self._state.without_step(forgotten, before)
        fallback = usable.invalid | forgotten
        if np.count_nonzero(fallback):
            inside = np.where(fallback[:, None], self._still(observations), inside)
        return inside, fallback

    def _still(self, observations: NDArray[np.float32]) -> NDArray[Any]:
        """(B, n): actions that keep each row where it was sent last, or at rest."""
        still = self.policy.variables.still(self._last, self._places, observations)
        still = np.where(self._acted[:, None], still, self._last)
        found: NDArray[Any] = np.clip(still, self.space.low, self.space.high).astype(self.space.dtype, copy=False)
        return found

    def _planned(self, observations: NDArray[np.float32], usable: Usable) -> NDArray[Any] | None:
        """(B, n) the policy's answer, or None without one."""
        try:
            call = functools.partial(self._ask, observations, usable)
            planned, self._state = call() if self.deadline is None else self.deadline.ask(call)
            return planned
        except Late as error:
            self._note("late", np.ones(self.batch, bool), f"the policy is late: {error}")
        except FAULTS as error:
            self._fail(error)
        return None

    def _ask(self, observations: NDArray[np.float32], usable: Usable) -> tuple[NDArray[Any], PolicyState]:
        planned, state = self.policy.step(
            observations.copy(),  # copies: a policy may change what it is shown
            self._state,
            usable.command.copy() if self.see_operator else None,
            usable.mask.copy() if self.see_operator else None,
            deterministic=self.deterministic,
            temperature=self.temperature,
            generator=self._generator,
            **({} if self._said is None else {"labels": self._said}),
        )
        if planned.shape != (self.batch, self.policy.action_dim):
            raise ValueError(f"actions are {planned.shape} and not {(self.batch, self.policy.action_dim)}")
        if planned.dtype.kind not in "fiu" or not isinstance(state, PolicyState) or len(state) != self.batch:
            raise ValueError(f"the policy answers with {planned.dtype} and a state {type(state).__name__}")
        return planned, state

    def _fail(self, error: BaseException, then: str = STILL) -> None:
        what = f"the policy failed with {type(error).__name__}: {error}"
        self._note("failed", np.ones(self.batch, bool), what, then)

    def _note(self, kind: str, rows: NDArray[np.bool_], what: str, then: str = STILL) -> None:
        """Count an event's rows, and warn at the first one of its kind."""
        count = np.count_nonzero(rows)
        if not count:
            return
        self.counts[kind] += count
        if then is STILL:
            self._cause = np.where(rows & (self._cause == ""), kind, self._cause).astype("<U7")
        if kind not in self._warned:
            self._warned.add(kind)
            warnings.warn(f"{what}: {then}; reported once, see `counts` for totals", RuntimeWarning, stacklevel=4)

    def _warm_up(self, deadline: Deadline) -> None:
        """Make the policy's first call, which takes longest, so that it does not count as late."""
        observations = np.zeros((self.batch, self.policy.observation_dim), np.float32)
        labels: dict[str, Any] = {}
        if self.policy.labels:
            least = [*(0 for _ in categories(self.policy.labels)), *(low for low, _ in self.policy.label_ranges)]
            labels["labels"] = np.tile(np.array(least), (self.batch, 1))
        random = torch.Generator().manual_seed(0)
        call = functools.partial(self.policy.step, observations, generator=random, **labels)
        with contextlib.suppress(*FAULTS):
            deadline.ask(call, patient=True)


def check_deadline(milliseconds: Any) -> float:
    """ValueError for what is no time that a thread can wait."""
    check_positive("deadline_ms", milliseconds)
    return check_range("deadline_ms", milliseconds, 0, LONGEST_DEADLINE)


def _resting(rest: ArrayLike | None, low: NDArray[Any], high: NDArray[Any]) -> NDArray[Any]:
    if rest is None:
        return low.clip(0, None).clip(None, high)
    action: NDArray[Any] = as_numbers("rest", rest).astype(low.dtype)
    if action.shape != low.shape or not ((action >= low) & (action <= high)).all():
        raise ValueError(f"rest must be an action in [{low}, {high}], got {rest!r}")
    return action
