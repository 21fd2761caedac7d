"""A seeded machine that drives a filter through any sequence of resets, commands, observations and failing policies.

It checks at every step that the robot is sent an action of the space, with the held dims as commanded, and that a
policy with labels is told what is said and nothing else.

    python -m tests.filter.machine 1000000
"""

import itertools
import sys
import time
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space

from mac_policy import ActionFilter, VectorActionFilter
from mac_policy.policies.bc import BC, BCSettings
from mac_policy.policies.mac import MAC
from mac_policy.policies.mac_settings import MACSettings
from tests.filter.talker import SPOKEN, Talker
from tests.policies.conftest import ACTION, OBSERVATION, PLACED, SMALL, SPACES

LOW, HIGH = SPACES.action.low, SPACES.action.high
DIMS = [2, 0]
FORMS = ("dims", "masks", "targets", "vector", "deadline", "labels", "vector with labels")
DEADLINE_MS = 5.0
OWN = 0.03
"""Share of the steps in which a policy with labels answers itself."""


class Hostile:
    """Raises whatever it is told to when it is read as an array."""

    def __init__(self, error):
        self.error = error

    def __array__(self, *args, **settings):
        raise type(self.error)(*self.error.args)  # an error that is raised again keeps all its tracebacks


class Erratic:
    """Answers what the machine tells it to, and notes what it was shown and told."""

    machine = None

    def step(self, obs, state=None, command=None, mask=None, **settings):
        answer = self.machine.answer
        named = answer if isinstance(answer, str) else ""
        self.machine.shown, self.machine.told = np.array(obs), np.array(settings.get("labels"))
        if named == "its own":
            self.machine.planned, state = super().step(obs, state, command, mask, **settings)
            return self.machine.planned.copy(), state
        state = self.initial_state(len(obs)) if state is None else replace(state, fresh=np.zeros(len(obs), bool))
        if isinstance(answer, BaseException):
            raise type(answer)(*answer.args)
        if named == "slow":
            time.sleep(2 * DEADLINE_MS / 1000)
        if named == "changes what it is shown":
            for given in (obs, command, mask):
                if given is not None:
                    given[:] = 1
        if named == "no state":
            return self.machine.planned.copy(), None
        if named == "another state":
            return self.machine.planned.copy(), self.initial_state(len(obs) + 1)
        return self.machine.planned.copy() if named else answer, state

    def carried_out(self, state, actions, observations):
        if self.machine.forgetful:
            raise KeyError("memory")
        return super().carried_out(state, actions, observations)


class ErraticBC(Erratic, BC):
    """Without labels."""


class ErraticMAC(Erratic, MAC):
    """With labels, of which it has beliefs."""


ANSWERS = ("good", "changes what it is shown")
FAILURES = (
    ValueError("broken"), SystemExit(3), MemoryError(), RecursionError(), "no state", "another state", None,
    np.array("text"), np.full((1, ACTION), "0.5"), np.zeros((1, ACTION), complex), np.zeros((2, ACTION + 1)),
    np.zeros(ACTION), [[0.0] * ACTION],
)  # fmt: skip


class Robot(gymnasium.Env):
    """An environment that shows what the machine tells it to, and hands over what it is sent."""

    observation_space, action_space = SPACES[:2]

    def __init__(self, machine):
        self.machine = machine

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.machine.observe(), {}

    def step(self, action):
        self.machine.receive(action[None])
        self.machine.ending = self.machine.rng.random(1) < 0.02
        return self.machine.observe(), 0.0, bool(self.machine.ending[0]), False, {}


class Robots(VectorEnv):
    """The same for several robots."""

    def __init__(self, machine):
        self.machine, self.num_envs = machine, machine.batch
        self.single_observation_space, self.single_action_space = SPACES[:2]
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.metadata = {}

    def reset(self, *, seed=None, options=None):
        return self.machine.observe(), {}

    def step(self, actions):
        self.machine.receive(actions)
        self.machine.ending = self.machine.rng.random(self.num_envs) < 0.02
        return self.machine.observe(), np.zeros(self.num_envs), self.machine.ending, np.zeros(self.num_envs, bool), {}


class Machine:
    """One filter of a form, and what it must do next."""

    def __init__(self, form, seed=0):
        self.form, self.rng = form, np.random.default_rng(seed)
        self.batch, talks = 3 if form.startswith("vector") else 1, form.endswith("labels")
        self.planned, self.answer, self.shown, self.forgetful = self.actions(), "good", None, False
        self.seen = self.expected = None
        self.steps = self.falls = 0
        spaces = PLACED if form == "targets" else SPACES
        if talks:
            policy = ErraticMAC(SPACES._replace(labels=SPOKEN), MACSettings(**SMALL["mac"])).eval()
            policy.normalizer.observation_low.fill_(-4.0)
            policy.normalizer.observation_high.fill_(5.0)
        else:
            policy = ErraticBC(spaces, BCSettings(width=4, depth=1))
        policy.machine = self
        dims = DIMS if form == "dims" else None
        settings = {"max_change": 0.3} if form == "targets" else {"see_operator": bool(self.rng.random() < 0.5)}
        if form == "deadline":
            settings["deadline_ms"] = DEADLINE_MS
        if self.batch > 1:
            self.env = VectorActionFilter(Robots(self), policy, dims, **settings)
        else:
            self.env = ActionFilter(Robot(self), policy, dims, **settings)
        self.rest = self.env.completion.filler.rest
        hostile = Hostile(ValueError()), Hostile(SystemExit())
        self.talker = Talker(self.env, self.batch, self.rng, hostile) if talks else None
        self.ended = np.ones(self.batch, bool)
        self.reset()

    def run(self, steps):
        for _ in range(steps):
            if self.rng.random() < 0.02:
                self.reset()
            else:
                self.step()
        return self

    def reset(self):
        options = None
        if self.talker:
            self.talker.forget(~self.ended)
            options = self.talker.options()
        self.env.reset(seed=int(self.rng.integers(100)) if self.rng.random() < 0.5 else None, options=options)
        self.last = np.tile(self.rest, (self.batch, 1))
        self.ended = self.ending = np.zeros(self.batch, bool)

    def step(self):
        fails = self.rng.random() < 0.15
        pool = [*FAILURES, *(["slow"] * (self.form == "deadline"))] if fails else ANSWERS
        self.answer, self.planned = pool[self.rng.integers(len(pool))], self.actions()
        if self.rng.random() < 0.05:
            self.planned[:, 0] = self.rng.choice([np.nan, np.inf, -np.inf])
        self.forgetful = self.rng.random() < 0.02
        self.breaks = self.rng.random() < 0.01
        if self.talker and not fails and self.rng.random() < OWN:
            self.answer = "its own"
        seen, action, told = self.seen, self.command(), None
        if self.talker:
            action, told = self.talk(action)
        self.sent = None
        try:
            info = self.env.step(action)[-1]
        except ConnectionError:
            info = None
        assert self.sent is not None, "the robot was sent nothing"
        if info is not None:
            self.check_report(info["action_filter"], seen)
        if told is not None:
            self.talker.check(self.told, told)
            if info is not None and isinstance(self.answer, str) and self.answer == "its own":
                own = ~np.atleast_1d(info["action_filter"]["fallback"])
                self.talker.check_answer(info["action_filter"], own, told)
        if self.breaks:
            self.seen = None  # nothing was read since: the next action must not rest on what was read before
        self.last = self.sent
        if info is not None:  # the episodes that ended before this step began anew in it
            begun = self.ended & (self.batch > 1)  # a single environment waits for its reset
            self.last = np.where(begun[:, None], self.rest, self.sent)
            self.ended = self.ending
            if self.talker:
                self.talker.forget(self.ending)
        self.steps += 1

    def talk(self, action):
        """The action with entries for the labels, and the codes that the policy must be told."""
        if self.rng.random() < 0.1:
            self.talker.call()
        if not isinstance(action, dict):
            return action, self.talker.lasting
        entries, told = self.talker.entries()
        return {**entries, **action}, told

    # ---- what goes in ----

    def actions(self):
        """(B, n) some inside the space and some outside."""
        return (self.rng.normal(size=(self.batch, ACTION)) * 1.5).astype(np.float32)

    def observe(self):
        """What an environment shows next; `seen` is None where it cannot be used."""
        one = self.batch == 1
        good = self.rng.normal(size=(self.batch, OBSERVATION)).astype(self.rng.choice([np.float32, np.float64]))
        if self.rng.random() < 0.85:
            self.seen = good.astype(np.float32)
            return good[0] if one else good
        self.seen = None
        spoiled = good.copy()
        spoiled[self.rng.random(good.shape) < 0.5] = self.rng.choice([np.nan, np.inf, -np.inf])
        spoiled[:, 0] = np.nan
        bad = [
            spoiled[0] if one else spoiled, good[:, :-1], good[:, :, None], np.float32(1), "text", None, {"a": good},
            [[0.0], [0.0, 1.0]], np.full(good.shape, "0.5"), good.astype(complex), np.full(good.shape, 1e300),
            Hostile(ValueError()), Hostile(SystemExit()), b"",
        ]  # fmt: skip
        return bad[self.rng.integers(len(bad))]

    def command(self):
        """A command in the form of the filter's action; `expected` is the values and the mask that must come of it."""
        values, mask = self.actions(), self.rng.random((self.batch, ACTION)) < self.rng.random()
        if self.form == "dims":
            mask[:] = np.isin(np.arange(ACTION), DIMS)
        kind = self.rng.random()
        if kind < 0.2:  # some values are no numbers
            spoiled = self.rng.random(values.shape) < 0.4
            values[spoiled] = self.rng.choice([np.nan, np.inf, -np.inf])
        elif kind < 0.25:
            values[:] = 1e30
        held = mask & np.isfinite(values)
        self.expected = np.clip(values, LOW, HIGH), held
        raw = [int(1e30)] * values.shape[1] if 0.2 <= kind < 0.25 and self.batch == 1 else values
        if self.form == "dims":
            raw = [raw[0]] * len(DIMS) if isinstance(raw, list) else values[0, DIMS]
        elif self.batch == 1:
            raw = raw if isinstance(raw, list) else values[0]
            mask = mask[0]
        if kind < 0.85:
            if self.form == "dims":
                return raw
            as_numbers = mask.astype(self.rng.choice([bool, np.int8, np.float64]))
            return {"action": raw, "mask": as_numbers}
        self.expected = np.zeros_like(values), np.zeros(values.shape, bool)
        junk = (
            None, "text", b"", 3.0, [], [[0.0], [0.0, 1.0]], np.zeros((7, 7)), Hostile(ValueError()),
            Hostile(SystemExit()), np.full(np.shape(raw), "0.5"), np.zeros(np.shape(raw), complex), {"action": raw},
            {"mask": mask}, {"action": raw, "mask": "yes"}, {"action": Hostile(KeyError()), "mask": mask},
            {"action": raw, "mask": np.full(np.shape(mask), 2)}, {"action": raw, "mask": Hostile(SystemExit())},
        )  # fmt: skip
        return junk[self.rng.integers(len(junk))]

    # ---- what comes out ----

    def receive(self, actions):
        """Called by the environment with what the robot is sent."""
        values, held = self.expected
        assert isinstance(actions, np.ndarray)
        assert actions.dtype == SPACES.action.dtype
        assert actions.shape == (self.batch, ACTION)
        assert np.isfinite(actions).all()
        assert ((actions >= LOW) & (actions <= HIGH)).all()
        assert same(actions[held], values[held])
        self.sent = actions.copy()
        actions[:] = 1e9  # an environment may use its action as it likes
        if self.breaks:
            raise ConnectionError("the robot does not answer")

    def check_report(self, report, seen):
        """The report says what was done and why; nothing stale was used; a fallback stands still."""
        held = self.expected[1]
        fallback, cause = np.atleast_1d(report["fallback"]), np.atleast_1d(report["cause"])
        self.falls += int(fallback.sum())
        assert same(np.atleast_2d(report["action"]), self.sent)
        assert same(np.atleast_2d(report["mask"]), held)
        assert same(fallback, cause != "")
        assert set(cause) <= {"", "invalid", "blind", "failed", "late", "broken"}
        if seen is None:
            assert set(cause) <= {"invalid", "blind"}
        if self.form == "deadline":  # a busy machine may be late with any answer
            return
        if not isinstance(self.answer, str) or self.answer in ("no state", "another state"):
            assert fallback.all()
        elif not fallback.all():
            assert same(self.shown[~fallback], seen[~fallback])
        if self.form != "targets":
            wanted = np.where(fallback[:, None], self.last, np.clip(self.planned, LOW, HIGH))
            assert same(self.sent[~held], wanted[~held])


def same(one, other):
    return one.shape == other.shape and bool((one == other).all())


def memory():
    """Megabytes that the process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def long_run(steps, seed=0, part=1000, say=lambda line: None):
    """Megabytes by which the process grew after the first tenth of so many steps, over all forms in turn."""
    machines = [Machine(form, seed) for form in FORMS]
    before = None
    for done, machine in zip(range(0, steps, part), itertools.cycle(machines), strict=False):
        machine.run(part)
        if before is None and done >= steps // 10:
            before = memory()
        if before is not None and (done + part) % 50_000 == 0:
            say(f"{done + part:,} steps, no violation, {memory() - before:.2f} MB, {time.process_time():.0f} s")
    return memory() - before, machines


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    began = time.process_time()
    grown, ran = long_run(int(sys.argv[1]), say=partial(print, flush=True))
    for machine in ran:
        print(f"{machine.form}: {machine.steps:,} steps, {machine.falls:,} rows stood still")
    print(f"no violation; {grown:.2f} MB more than after the first tenth; {time.process_time() - began:.0f} s")
