"""A group of episodes of one team, in environments stepped together."""

from __future__ import annotations

import functools
import gc
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mac_policy.common.labels import UNSAID, AnyLabel, categories, unsaid
from mac_policy.evaluation.episode_store import EpisodeRecord
from mac_policy.evaluation.teams import Team
from mac_policy.filter.commands import usable_command
from mac_policy.filter.filler import Filled, Filler
from mac_policy.operators.operator import Command
from mac_policy.policies.spaces import Spaces, check_same
from mac_policy.tasks.task import Environment, EnvironmentFactory

if TYPE_CHECKING:
    from mac_policy.evaluation.rollout import Rollout

FILMED = 0
"""The episode whose actions are stored, for a film."""


class Job(NamedTuple):
    """A group of episodes of one team."""

    team: Team
    key: str
    first: int
    size: int


class Step(NamedTuple):
    """What happened at a step of a group."""

    filled: Filled
    wished: NDArray[np.int64] | None = None
    """(B,): what each operator wants, a class of the policy's first label; None for policies without categories."""


def run_job(rollout: Rollout, job: Job) -> list[EpisodeRecord]:
    """Roll out one group of episodes."""
    environments = made_environments(rollout.make_env, min(rollout.together, rollout.episodes))[: job.size]
    seeds = rollout.seed + job.first + np.arange(job.size)
    observations = np.stack([env.reset(seed=int(seed))[0] for env, seed in zip(environments, seeds, strict=True)])
    act = _actor(rollout, job, environments, seeds)
    steps: list[Step] = []
    rewards = [0.0] * job.size
    records: dict[int, EpisodeRecord] = {}
    while len(records) < job.size:
        steps.append(act(observations))
        for row in [row for row in range(job.size) if row not in records]:
            action = steps[-1].filled.actions[row]
            observations[row], reward, terminated, truncated, info = environments[row].step(action)
            rewards[row] += float(reward)
            if terminated or truncated:
                records[row] = _record(job, row, int(seeds[row]), steps, rewards[row], info)
    return [records[row] for row in range(job.size)]


_environments: dict[tuple[EnvironmentFactory, int], list[Environment]] = {}
"""At most one entry: the environments that this process stepped last."""


def made_environments(make_env: EnvironmentFactory, count: int) -> list[Environment]:
    """Environments, reused from group to group since a simulator takes long to build."""
    if (make_env, count) not in _environments:
        release_environments()
        _environments[make_env, count] = [make_env() for _ in range(count)]
    return _environments[make_env, count]


def release_environments() -> None:
    """Free the environments that were made last. A simulator holds much memory by few objects, many in cycles, which
    Python would leave alone for long."""
    if _environments:
        _environments.clear()
        gc.collect()


def _actor(
    rollout: Rollout, job: Job, environments: Sequence[Environment], seeds: NDArray[np.int64]
) -> Callable[[NDArray[np.float32]], Step]:
    """Maps the observations of a step (B, obs) to the actions of the team's operator and filler."""
    offered = Spaces.of(environments[0].observation_space, environments[0].action_space)
    shape = (job.size, offered.action.shape[0])
    fill: Callable[..., Filled] = functools.partial(_fill_with_zeros, offered.action)
    labels: tuple[AnyLabel, ...] = ()
    if job.team.filler is not None:
        policy = job.team.filler.load()
        check_same(policy.spaces, offered)
        labels = policy.spaces.labels
        fill = Filler(
            policy,
            batch=job.size,
            see_operator=job.team.see_operator,
            max_change=rollout.max_change,
            seed=int(np.random.SeedSequence([int(job.key, 16), job.first]).generate_state(1)[0]),
        )
    if job.team.operator is None:
        nothing = Command(np.zeros(shape, np.float32), np.zeros(shape, bool))
        return lambda observations: Step(fill(observations, *nothing))
    operator = job.team.operator(environments)
    operator.reset(seeds=seeds)
    classes = categories(labels)

    def act(observations: NDArray[np.float32]) -> Step:
        command = operator(observations)
        if not classes:
            return Step(fill(observations, *command))
        known = classes[0].classes  # of a policy whose label is not the task's, no class is wished
        wished = np.array([known.index(wish) if wish in known else UNSAID for wish in operator.wanted()])
        if not job.team.told:
            return Step(fill(observations, *command), wished)
        said = unsaid(labels, job.size)
        said[:, 0] = wished
        return Step(fill(observations, *command, labels=said), wished)

    return act


def _fill_with_zeros(
    space: spaces.Box, observations: NDArray[np.float32], command: NDArray[np.float32], mask: NDArray[np.bool_]
) -> Filled:
    began = time.perf_counter()
    usable = usable_command(command, mask, len(mask), space)
    actions = np.where(usable.mask, usable.command, np.zeros(space.shape, space.dtype).clip(space.low, space.high))
    never = np.zeros(len(mask), bool)
    cause = np.where(usable.invalid, "invalid", "")
    return Filled(actions, 1e3 * (time.perf_counter() - began), never, usable.invalid, usable.mask, cause)


def _record(
    job: Job, row: int, seed: int, steps: Sequence[Step], reward: float, info: Mapping[str, Any]
) -> EpisodeRecord:
    """The record of a row whose episode has ended after `steps` with this info."""
    fills = [step.filled for step in steps]
    filmed = fills if job.first + row == FILMED else ()
    believed = [] if job.team.told else [filled.assumed for filled in fills]
    beliefs = [filled.beliefs[0][row] for filled in fills if filled.beliefs and not job.team.told]
    return EpisodeRecord(
        key=job.key,
        arm=job.team.arm,
        training_seed=job.team.training_seed,
        group=(job.first, job.size),
        episode=job.first + row,
        seed=seed,
        reward=reward,
        completed=tuple(info.get("completed", ())),
        steps=len(steps),
        held_dims=sum(int(filled.mask[row].sum()) for filled in fills) / len(steps),
        fallback=sum(int(filled.fallback[row]) for filled in fills),
        invalid=sum(int(filled.invalid[row]) for filled in fills),
        fill_ms=tuple(round(filled.milliseconds, 4) for filled in fills),
        actions=tuple(tuple(filled.actions[row].tolist()) for filled in filmed),
        masks=tuple("".join("01"[held] for held in filled.mask[row].tolist()) for filled in filmed),
        intent=tuple(info.get("intent", ())),
        changed_at=info.get("changed_at"),
        followed_after=info.get("followed_after"),
        wished=tuple(int(step.wished[row]) for step in steps if step.wished is not None),
        assumed=tuple(int(np.nan_to_num(found[row, 0], nan=UNSAID)) for found in believed if found is not None),
        believed=tuple(round(float(belief.max()), 3) for belief in beliefs),
        beliefs=tuple(tuple(round(float(p), 4) for p in belief) for belief in beliefs if filmed),
    )
