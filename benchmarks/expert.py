"""Success rates of the scripted demonstrator of the kitchen, with the length and CPU time of an episode.

    python benchmarks/expert.py --seed 1000 --episodes 100 --noise 0.08

The demonstrator was tuned on seeds 0 to 299: report results on other seeds.
"""

import argparse
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mac_policy.common.provenance import run_record, write_json
from mac_policy.common.statistics import wilson_interval

# name: (task, order)
ARMS = {
    "classic four, random order": ("kitchen-complete", "random"),
    "four of seven, random order": ("kitchen-partial", "random"),
    "four of seven, canonical order": ("kitchen-mixed", "canonical"),
}
COLLECTION = "collection"


def one_episode(
    index: int, *, task: str, order: str, seed: int, noise: float | tuple[float, float], start: str
) -> dict[str, Any]:
    """The goals intended and completed in one episode, its number of steps, and its CPU time in seconds."""
    from envs.kitchen.demonstrator import plan_episode, record_episode

    intended = plan_episode(task, seed=seed, index=index, order=order, noise=noise).order
    began = time.process_time()
    episode = record_episode(task, seed=seed, index=index, order=order, noise=noise, start=start)
    done = [name for name in intended if name in episode.completed]
    return {"intended": intended, "done": done, "steps": len(episode), "seconds": time.process_time() - began}


def run_arm(pool: ProcessPoolExecutor, name: str, options: argparse.Namespace) -> dict[str, Any]:
    """The summary of one row of the table."""
    task, order = ARMS[name]
    settings = {"seed": options.seed, "noise": noise_level(options.noise), "start": options.start}
    run = partial(one_episode, task=task, order=order, **settings)
    episodes = list(pool.map(run, range(options.episodes)))
    tried = Counter(name for episode in episodes for name in episode["intended"])
    done = Counter(name for episode in episodes for name in episode["done"])
    counts = np.array([len(episode["done"]) for episode in episodes])
    return {
        "task": task,
        "order": order,
        "episodes": len(episodes),
        "all_four": share(int((counts == 4).sum()), len(counts)),
        "three_or_more": share(int((counts >= 3).sum()), len(counts)),
        "mean_tasks": float(counts.mean()),
        "median_steps": float(np.median([episode["steps"] for episode in episodes])),
        "median_cpu_seconds": float(np.median([episode["seconds"] for episode in episodes])),
        "per_task": {name: share(done[name], tried[name]) for name in sorted(tried)},
    }


def share(successes: int, trials: int) -> dict[str, Any]:
    """A share with its 95% interval."""
    low, high = wilson_interval(successes, trials)
    return {"share": successes / trials, "successes": successes, "trials": trials, "ci95": [low, high]}


def noise_level(text: str) -> float | tuple[float, float]:
    """The standard deviation of the noise, or the range that demonstrations are collected with."""
    from envs.kitchen.demonstrator import COLLECTION_NOISE

    return COLLECTION_NOISE if text == COLLECTION else float(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1000, help="seed of the episodes (default 1000)")
    parser.add_argument("--episodes", type=int, default=100, help="episodes per row of the table (default 100)")
    parser.add_argument(
        "--noise", default="0.08", help=f"standard deviation, or '{COLLECTION}' for the range of the collection"
    )
    parser.add_argument(
        "--start", default="official", choices=("official", "randomised"), help="start (default official)"
    )
    parser.add_argument("--workers", type=int, default=1, help="number of worker processes (default 1)")
    parser.add_argument("--out", type=Path, default=Path("runs/benchmarks/expert"), help="folder of results.json")
    options = parser.parse_args()
    with ProcessPoolExecutor(options.workers) as pool:
        arms = {name: run_arm(pool, name, options) for name in ARMS}
    print(f"{'':32} {'all four':>9} {'3 or more':>9} {'tasks':>6} {'steps':>6} {'cpu s':>6}")
    for name, arm in arms.items():
        shares = f"{arm['all_four']['share']:9.0%} {arm['three_or_more']['share']:9.0%}"
        print(
            f"{name:32} {shares} {arm['mean_tasks']:6.2f} {arm['median_steps']:6.0f} {arm['median_cpu_seconds']:6.2f}"
        )
    settings = {"noise": options.noise, "start": options.start}
    print(write_json(options.out / "results.json", run_record(options.seed) | settings | {"arms": arms}))


if __name__ == "__main__":
    main()
