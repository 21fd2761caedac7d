"""Episodes of many teams, in environments stepped together and in worker processes.

Episode i starts from the same seed for every team. Episodes run in groups that start together. The result of a group
depends on its first episode and its size alone, and neither on the number of workers nor on other groups, so that an
interrupted run resumes from its finished groups with the same numbers.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass

import torch
from rich.console import Console

from mac_policy.common.checks import check_count
from mac_policy.common.digest import modules_sha256
from mac_policy.common.processes import map_processes
from mac_policy.common.progress import with_progress
from mac_policy.common.provenance import versions
from mac_policy.common.settings import Count, Natural, Rows, Settings
from mac_policy.evaluation.episode_store import EpisodeRecord, EpisodeStore
from mac_policy.evaluation.group import Job, release_environments, run_job
from mac_policy.evaluation.teams import Team
from mac_policy.tasks.task import EnvironmentFactory

DECIDE_THE_NUMBERS = ("torch", "numpy", "mujoco", "gymnasium_robotics")
CODE = ("common.labels", "core", "policies", "operators", "filter", "evaluation.group", "evaluation.teams")
"""Modules and packages whose code decides the numbers."""


@dataclass(frozen=True)
class Rollout(Settings):
    """The settings that all teams share.

    seed: of the first episode; episode i starts from seed + i
    together: environments stepped together, with one call of each policy per step
    max_change: how far filled-in dims may move per step after the operator's subset has changed; None: no limit
    """

    make_env: EnvironmentFactory
    episodes: Rows
    seed: Natural = 10_000
    together: Count = 10
    max_change: float | None = None

    def key(self, team: Team) -> str:
        """Digest of everything that an episode of the team depends on besides its group."""
        identity = {
            "environment": self.make_env.identity(),
            "team": team.identity(),
            "seed": self.seed,
            "max_change": self.max_change,
            "versions": {name: value for name, value in versions().items() if name in DECIDE_THE_NUMBERS},
            "code": modules_sha256(*(f"mac_policy.{name}" for name in CODE)),
        }
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]

    def groups(self) -> list[tuple[int, int]]:
        """First episode and size of each group."""
        starts = range(0, self.episodes, self.together)
        return [(first, min(self.together, self.episodes - first)) for first in starts]


Results = dict[str, dict[int | None, list[EpisodeRecord]]]
"""For each arm and training seed the episodes 0, 1, ..."""


def roll_out(
    rollout: Rollout,
    teams: Sequence[Team],
    store: EpisodeStore,
    *,
    workers: int = 1,
    neighbours: Sequence[EpisodeStore] = (),
    console: Console | None = None,
) -> Results:
    """The episodes of every team. Stored episodes are read, the others are rolled out and stored.

    neighbours: stores of other runs, whose episodes are copied if they have the same key, as those of policies alone
        have if only the operator differs
    """
    check_count("workers", workers)
    keys = {team: rollout.key(team) for team in teams}
    distinct = {key: team for team, key in reversed(keys.items())}  # teams that differ in their names alone are one
    done = _finished(store.read(distinct))
    for neighbour in neighbours:
        copied = {at: group for at, group in _finished(neighbour.read(distinct)).items() if at not in done}
        store.append(record for group in copied.values() for record in group)
        done |= copied
    groups = rollout.groups()
    jobs = [
        Job(team, key, *group)
        for group in groups
        for key, team in reversed(distinct.items())
        if (key, *group) not in done
    ]
    total = rollout.episodes * len(distinct)
    missing = sum(job.size for job in jobs)
    with ExitStack() as after, closing(map_processes(functools.partial(run_job, rollout), jobs, workers)) as finished:
        after.callback(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)  # as in workers: threads wait for each other and may change the last bit of a result
        for records in with_progress(((group, len(group)) for group in finished), total, total - missing, console):
            store.append(records)
            done |= _finished(records)
    release_environments()
    results: Results = {}
    for team, key in keys.items():
        episodes = [record for first, size in groups for record in done[key, first, size]]
        results.setdefault(team.arm, {})[team.training_seed] = episodes
    return results


def outdated(rollout: Rollout, teams: Sequence[Team], store: EpisodeStore) -> dict[str, int]:
    """For each arm, how many stored episodes are outdated by other weights, settings, versions or code."""
    keys = {rollout.key(team) for team in teams}
    seats = {(team.arm, team.training_seed) for team in teams}
    old = [r for r in store.read() if r.key not in keys and (r.arm, r.training_seed) in seats]
    return {arm: sum(r.arm == arm for r in old) for arm in dict.fromkeys(r.arm for r in old)}


def _finished(records: list[EpisodeRecord]) -> dict[tuple[str, int, int], list[EpisodeRecord]]:
    """The episodes of each complete group, by its key, first episode and size."""
    groups: dict[tuple[str, int, int], dict[int, EpisodeRecord]] = {}
    for record in records:
        groups.setdefault((record.key, *record.group), {})[record.episode] = record
    return {at: [group[i] for i in sorted(group)] for at, group in groups.items() if len(group) == at[2]}
