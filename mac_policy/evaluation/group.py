"""A group of episodes of one team, in environments stepped together."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mac_policy.evaluation.episode_store import EpisodeRecord
from mac_policy.evaluation.teams import Environment, EnvironmentFactory, Team
from mac_policy.filter.commands import usable_command
from mac_policy.filter.filler import Filled, Filler
from mac_policy.policies.spaces import Spaces, check_same

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


def run_job(rollout: Rollout, job: Job) -> list[EpisodeRecord]:
    """Roll out one group of episodes."""
    environments = _environments(rollout.make_env, min(rollout.together, rollout.episodes))[: job.size]
    seeds = rollout.seed + job.first + np.arange(job.size)
    observations = np.stack([env.reset(seed=int(seed))[0] for env, seed in zip(environments, seeds, strict=True)])
    fill = _Fill(rollout, job, environments, seeds)
    running = np.ones(job.size, bool)
    tracks = [_Track() for _ in environments]
    while running.any():
        filled = fill(observations, *fill.command(observations))
        for row in np.flatnonzero(running).tolist():
            observations[row], reward, terminated, truncated, info = environments[row].step(filled.actions[row])
            tracks[row].add(filled, row, float(reward))
            if terminated or truncated:
                running[row] = False
                tracks[row].completed = tuple(info.get("completed", ()))
    return [_record(job, track, row, int(seeds[row])) for row, track in enumerate(tracks)]


def release_environments() -> None:
    """Release the environments that are reused from group to group."""
    _environments.cache_clear()


@functools.lru_cache(maxsize=1)
def _environments(make_env: EnvironmentFactory, count: int) -> list[Environment]:
    """Environments, reused from group to group since a simulator takes long to build."""
    return [make_env() for _ in range(count)]


class _Fill:
    """The operator and the filler of a team, for a group of episodes."""

    def __init__(
        self, rollout: Rollout, job: Job, environments: Sequence[Environment], seeds: NDArray[np.int64]
    ) -> None:
        spaces = Spaces.of(environments[0].observation_space, environments[0].action_space)
        self.shape = (job.size, spaces.action.shape[0])
        self.space = spaces.action
        self.operator = job.team.operator(environments) if job.team.operator else None
        if self.operator is not None:
            self.operator.reset(np.ones(job.size, bool), seeds)
        self.filler = None
        if job.team.filler is not None:
            policy = job.team.filler.load()
            check_same(policy.spaces, spaces)
            self.filler = Filler(
                policy,
                batch=job.size,
                see_operator=job.team.see_operator,
                max_change=rollout.max_change,
                seed=int(np.random.SeedSequence([int(job.key, 16), job.first]).generate_state(1)[0]),
            )
            self.filler.reset()

    def command(self, observations: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        if self.operator is None:
            return np.zeros(self.shape, np.float32), np.zeros(self.shape, bool)
        values, mask = self.operator(observations)
        return values, mask

    def __call__(
        self, observations: NDArray[np.float32], command: NDArray[np.float32], mask: NDArray[np.bool_]
    ) -> Filled:
        if self.filler is not None:
            return self.filler(observations, command, mask)
        began = time.perf_counter()
        usable = usable_command(command, mask, len(mask), self.space)
        zeros = np.clip(np.zeros(self.shape, self.space.dtype), self.space.low, self.space.high)
        actions = np.where(usable.mask, usable.command, zeros)
        none = np.zeros(len(mask), bool)
        invalid = none if usable.invalid is None else usable.invalid
        return Filled(actions, 1e3 * (time.perf_counter() - began), none, invalid, usable.mask)


class _Track:
    """Collects the facts of a running episode."""

    def __init__(self) -> None:
        self.reward = 0.0
        self.completed: tuple[str, ...] = ()
        self.fallback = self.invalid = 0
        self.fill_ms: list[float] = []
        self.actions: list[tuple[float, ...]] = []
        self.masks: list[str] = []

    def add(self, filled: Filled, row: int, reward: float) -> None:
        self.reward += reward
        self.fallback += int(filled.fallback[row])
        self.invalid += int(filled.invalid[row])
        self.fill_ms.append(round(filled.milliseconds, 4))
        self.actions.append(tuple(filled.actions[row].tolist()))
        self.masks.append("".join("01"[held] for held in filled.mask[row].tolist()))


def _record(job: Job, track: _Track, row: int, seed: int) -> EpisodeRecord:
    episode = job.first + row
    return EpisodeRecord(
        key=job.key,
        arm=job.team.arm,
        training_seed=job.team.training_seed,
        group=(job.first, job.size),
        episode=episode,
        seed=seed,
        reward=track.reward,
        completed=track.completed,
        steps=len(track.masks),
        held_dims=sum(mask.count("1") for mask in track.masks) / len(track.masks),
        fallback=track.fallback,
        invalid=track.invalid,
        fill_ms=tuple(track.fill_ms),
        actions=tuple(track.actions) if episode == FILMED else (),
        masks=tuple(track.masks) if episode == FILMED else (),
    )
