"""From episodes to numbers: means with their standard errors and intervals, and differences between arms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mac_policy.evaluation.episode_store import EpisodeRecord
from mac_policy.evaluation.intervals import two_level_interval, wilson_interval
from mac_policy.evaluation.rollout import Results

Seeds = dict[int | None, list[EpisodeRecord]]
"""An arm's episodes for each training seed; the one seed None where nothing was trained."""


def summarise(seeds: Seeds, tasks: Sequence[str] = ()) -> dict[str, Any]:
    """One arm: mean reward with its uncertainty, each task's share of episodes, fill-in times.

    `tasks` are listed in this order even when they were never done; any others follow.
    """
    rewards = [rewards_of(episodes) for episodes in seeds.values()]
    means = np.array([episodes.mean() for episodes in rewards])
    error, over = standard_error(rewards)
    episodes = [record for found in seeds.values() for record in found]
    steps = sum(record.steps for record in episodes)
    return {
        "reward_mean": float(means.mean()),
        "reward_se": error,
        "se_over": over,
        "ci95": list(two_level_interval(rewards)),
        "episodes": len(episodes),
        "training_seeds": [seed for seed in seeds if seed is not None],
        "seed_means": means.tolist(),
        "per_task": per_task(episodes, tasks),
        "latency_ms": latency(episodes),
        "steps": steps,
        "held_dims": sum(record.held_dims * record.steps for record in episodes) / steps,
        "fallback_steps": sum(record.fallback for record in episodes),
        "invalid_steps": sum(record.invalid for record in episodes),
        "rewards": [found.tolist() for found in rewards],
    }


def standard_error(rewards: Sequence[NDArray[np.floating]]) -> tuple[float | None, str]:
    """Of the mean, and over what: over training seeds, or over the episodes of the only one.

    Episodes of one policy are near copies: their spread says nothing about another training.
    """
    over = "training seeds" if len(rewards) > 1 else "episodes"
    values = np.array([found.mean() for found in rewards]) if len(rewards) > 1 else rewards[0]
    if len(values) < 2:
        return None, over
    return float(values.std(ddof=1) / math.sqrt(len(values))), over


def per_task(episodes: Sequence[EpisodeRecord], tasks: Sequence[str] = ()) -> dict[str, Any]:
    """Each task's share of the episodes, with Wilson's interval."""
    counts = dict.fromkeys(tasks, 0)
    for record in episodes:
        for task in dict.fromkeys(record.completed):
            counts[task] = counts.get(task, 0) + 1
    return {
        task: {"rate": count / len(episodes), "ci95": list(wilson_interval(count, len(episodes)))}
        for task, count in counts.items()
    }


def latency(episodes: Sequence[EpisodeRecord]) -> dict[str, float]:
    """Percentiles over steps of the time to fill in, and how many environments one call served."""
    times = np.concatenate([np.asarray(record.fill_ms) for record in episodes])
    found = {f"p{q}": float(np.percentile(times, q)) for q in (50, 95, 99)}
    return found | {"batch": max(record.group[1] for record in episodes)}


def difference(first: Seeds, second: Seeds) -> dict[str, Any] | None:
    """first - second on the training seeds and episodes they share, with a two-level bootstrap of the difference.

    An arm in which nothing was trained is the same for every training seed. None where nothing is shared.
    """
    shared = [seed for seed in {**first, **second} if seed is not None and _has(first, seed) and _has(second, seed)]
    pairs = [(_of(first, seed), _of(second, seed)) for seed in shared] or (
        [(first[None], second[None])] if None in first and None in second else []
    )
    if not pairs:
        return None
    gaps = [rewards_of(a) - rewards_of(b) for a, b in pairs]
    error, over = standard_error(gaps)
    return {
        "mean": float(np.mean([gap.mean() for gap in gaps])),
        "se": error,
        "se_over": over,
        "ci95": list(two_level_interval(gaps)),
        "training_seeds": shared,
        "episodes": sum(map(len, gaps)),
    }


def differences(results: Results, reference: str) -> dict[str, Any]:
    """The reference arm minus each other arm."""
    found = {
        f"{reference} - {arm}": difference(results[reference], seeds)
        for arm, seeds in results.items()
        if arm != reference
    }
    return {name: gap for name, gap in found.items() if gap is not None}


def best_arm(results: Results, among: Sequence[str]) -> str | None:
    """The arm with the highest mean reward; chosen after the fact, it looks better than it is."""
    there = [arm for arm in among if arm in results]
    return max(
        there, key=lambda arm: np.mean([rewards_of(found).mean() for found in results[arm].values()]), default=None
    )


def rewards_of(episodes: Sequence[EpisodeRecord]) -> NDArray[np.float64]:
    return np.array([record.reward for record in episodes], np.float64)


def _has(seeds: Seeds, seed: int) -> bool:
    return seed in seeds or None in seeds


def _of(seeds: Seeds, seed: int) -> list[EpisodeRecord]:
    return seeds[seed] if seed in seeds else seeds[None]
