"""Statistics of rollouts: means with standard errors and intervals, and paired differences between arms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mac_policy.common.statistics import mean_over_seeds, share_interval
from mac_policy.evaluation.episode_store import EpisodeRecord
from mac_policy.evaluation.rollout import Results
from mac_policy.evaluation.wishes import summarise_wishes

Seeds = dict[int | None, list[EpisodeRecord]]
"""An arm's episodes by training seed; the only key is None where nothing in the arm is trained."""
REFERENCE = "operator+mac"
"""The arm that is compared with each other arm."""


def compare(results: Results, tasks: Sequence[str], alone: Sequence[str] = ()) -> dict[str, Any]:
    """The summary of each arm, the paired differences between the reference arm (operator+mac, otherwise the first) and
    each other arm, and the best of the arms `alone`, in which no operator acts."""
    reference = REFERENCE if REFERENCE in results else next(iter(results))
    return {
        "arms": {arm: summarise(seeds, tasks) for arm, seeds in results.items()},
        "paired": differences(results, reference),
        "best_alone": best_arm(results, alone),
    }


def summarise(seeds: Seeds, tasks: Sequence[str] = ()) -> dict[str, Any]:
    """One arm: mean reward with its uncertainty, the share of episodes in which each task is done, fill-in times.

    `tasks` come first and in this order, also those that are never done; others follow.
    """
    rewards = [rewards_of(episodes) for episodes in seeds.values()]
    reward = mean_over_seeds(rewards, shared_rows=True)  # all training seeds run in the same episodes
    episodes = [record for found in seeds.values() for record in found]
    steps = sum(record.steps for record in episodes)
    return {
        "reward_mean": reward.mean,
        "reward_se": reward.se,
        "se_over": reward.over,
        "ci95": reward.ci95,
        "interval": reward.interval,
        "episodes": len(episodes),
        "training_seeds": [seed for seed in seeds if seed is not None],
        "seed_means": reward.per_seed,
        "per_task": per_task(list(seeds.values()), tasks),
        "latency_ms": latency(episodes),
        "steps": steps,
        "held_dims": sum(record.held_dims * record.steps for record in episodes) / steps,
        "fallback_steps": sum(record.fallback for record in episodes),
        "invalid_steps": sum(record.invalid for record in episodes),
        "rewards": [found.tolist() for found in rewards],
        **summarise_wishes(list(seeds.values())),
    }


def per_task(seeds: Sequence[Sequence[EpisodeRecord]], tasks: Sequence[str] = ()) -> dict[str, Any]:
    """The share of episodes in which each task is done, the mean over training seeds, with its interval."""
    done = [[set(record.completed) for record in episodes] for episodes in seeds]
    others = [task for episodes in seeds for record in episodes for task in record.completed]
    found = {}
    for task in dict.fromkeys([*tasks, *others]):
        counts, trials = [sum(task in each for each in of_seed) for of_seed in done], [len(of_seed) for of_seed in done]
        ends, kind = share_interval(counts, trials)
        rate = float(np.mean([count / of for count, of in zip(counts, trials, strict=True)]))
        found[task] = {"rate": rate, "ci95": ends, "interval": kind}
    return found


def latency(episodes: Sequence[EpisodeRecord]) -> dict[str, float]:
    """Percentiles over steps of the time of a fill-in call, and the number of environments that a call serves."""
    times = np.concatenate([np.asarray(record.fill_ms) for record in episodes])
    batch = {"batch": max(record.group[1] for record in episodes)}
    return {f"p{q}": float(np.percentile(times, q)) for q in (50, 95, 99)} | batch


def difference(first: Seeds, second: Seeds) -> dict[str, Any] | None:
    """first - second on the training seeds and episodes that both arms have; None where there are none.

    An arm in which nothing is trained is compared with every training seed of the other.
    """
    both = {**first, **second}
    shared = [seed for seed in both if seed is not None and all({seed, None} & set(arm) for arm in (first, second))]
    pairs = [[arm[seed if seed in arm else None] for arm in (first, second)] for seed in shared]
    if None in first and None in second and not shared:
        pairs = [[first[None], second[None]]]
    if not pairs:
        return None
    gaps = [rewards_of(a) - rewards_of(b) for a, b in pairs]
    found = mean_over_seeds(gaps, shared_rows=True)
    return {
        "mean": found.mean,
        "se": found.se,
        "se_over": found.over,
        "ci95": found.ci95,
        "interval": found.interval,
        "training_seeds": shared,
        "episodes": sum(map(len, gaps)),
    }


def differences(results: Results, reference: str) -> dict[str, Any]:
    """The reference arm minus each other arm."""
    return {
        f"{reference} - {arm}": gap
        for arm, seeds in results.items()
        if arm != reference and (gap := difference(results[reference], seeds)) is not None
    }


def best_arm(results: Results, among: Sequence[str]) -> str | None:
    """The arm with the highest mean reward; selected on the episodes it is judged by, its mean is biased upwards."""
    return max(
        (arm for arm in among if arm in results),
        key=lambda arm: np.mean([rewards_of(found).mean() for found in results[arm].values()]),
        default=None,
    )


def rewards_of(episodes: Sequence[EpisodeRecord]) -> NDArray[np.float64]:
    return np.array([record.reward for record in episodes], np.float64)
