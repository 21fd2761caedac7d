"""What an operator wanted and what was done: the measures of episodes in an environment with an intent."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mac_policy.common.statistics import mean_over_seeds
from mac_policy.evaluation.episode_store import EpisodeRecord

Measure = Callable[[EpisodeRecord], float]


def wanted(record: EpisodeRecord) -> int:
    """How many wanted tasks were completed, in whatever order."""
    return sum(name in record.intent for name in record.completed)


def unwanted(record: EpisodeRecord) -> int:
    """How many tasks were completed that nobody wanted."""
    return len(record.completed) - wanted(record)


def in_order(intent: Sequence[str], completed: Sequence[str]) -> int:
    """How many wanted tasks were completed in the wanted order: the length of the longest such subsequence.

    >>> in_order(("a", "b", "c", "d"), ("b", "a", "x", "c"))
    2
    """
    places = [list(intent).index(name) for name in completed if name in intent]
    longest: list[int] = []
    for at, place in enumerate(places):
        longest.append(1 + max((longest[i] for i in range(at) if places[i] < place), default=0))
    return max(longest, default=0)


def effort(record: EpisodeRecord) -> float:
    """Held dims, summed over the steps."""
    return record.held_dims * record.steps


def belief_right(record: EpisodeRecord) -> float | None:
    """The share of the steps with a wish in which the policy assumed it; None without wishes, and for a policy that
    never assumes anything."""
    pairs = [(w, a) for w, a in zip(record.wished, record.assumed, strict=False) if w >= 0]
    assumes = any(a >= 0 for a in record.assumed)
    return float(np.mean([wish == assumed for wish, assumed in pairs])) if pairs and assumes else None


def belief_followed_after(record: EpisodeRecord) -> int | None:
    """Steps from a change of the intent until the policy first assumed what was wanted; None where it never did."""
    if record.changed_at is None or not record.assumed:
        return None
    after = zip(record.wished[record.changed_at :], record.assumed[record.changed_at :], strict=False)
    return next((step for step, (wish, assumed) in enumerate(after) if wish == assumed), None)


MEASURES: dict[str, Measure] = {
    "wanted": wanted,
    "unwanted": unwanted,
    "in_order": lambda record: in_order(record.intent, record.completed),
    "steps": lambda record: record.steps,
    "effort": effort,
    "fallbacks": lambda record: record.fallback,
}
"""Measures of every episode in an environment with an intent."""


def summarise_wishes(seeds: Sequence[Sequence[EpisodeRecord]]) -> dict[str, Any]:
    """Of each measure the mean, its standard error and interval over training seeds and episodes; {} without an intent.

    Where the intent changes: `followed`, the share of the episodes with a change in which the robot followed it, and
    `followed_after_median` steps; `belief_followed` and `belief_followed_after_median` of what the policy assumed.
    `belief_right_mean`: the share of the steps in which the policy assumed what the operator wanted.
    """
    episodes = [record for of_seed in seeds for record in of_seed]
    if not any(record.intent for record in episodes):
        return {}
    found: dict[str, Any] = {}
    for name, measure in MEASURES.items():
        values = [np.array([measure(record) for record in of_seed], float) for of_seed in seeds]
        mean = mean_over_seeds(values, shared_rows=True)
        found |= {f"{name}_mean": mean.mean, f"{name}_se": mean.se, f"{name}_ci95": mean.ci95}
    shares = [[s for record in of_seed if (s := belief_right(record)) is not None] for of_seed in seeds]
    if all(shares):
        mean = mean_over_seeds([np.array(of_seed) for of_seed in shares])
        found |= {"belief_right_mean": mean.mean, "belief_right_se": mean.se, "belief_right_ci95": mean.ci95}
    changed = [record for record in episodes if record.changed_at is not None]
    found |= _followed("followed", [record.followed_after for record in changed])
    return found | _followed(
        "belief_followed", [belief_followed_after(r) for r in changed if any(a >= 0 for a in r.assumed)]
    )


def _followed(name: str, steps: Sequence[int | None]) -> dict[str, Any]:
    """The share of episodes in which a change was followed, and the median number of steps that it took; an episode in
    which it was not followed counts as longer than any other."""
    if not steps:
        return {}
    median = float(np.median([math.inf if found is None else found for found in steps]))
    share = sum(found is not None for found in steps) / len(steps)
    return {name: share, f"{name}_after_median": median if math.isfinite(median) else None}
