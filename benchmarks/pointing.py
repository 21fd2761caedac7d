"""Does a policy that acts alone take a thing to the place that it is told?

    python benchmarks/pointing.py runs/kitchen-intent/mac-ahead-s* --say kettle_x=-0.23,kettle_y=0.75 --goal kettle

For policies with labels of real values. The policy is told the numbers at every step, or nothing; both start from the
same seeds. Reported for both and for their paired difference: the distance between the told and the observed numbers at
the end of an episode, the least distance in it, and the share of episodes that complete --goal. Student's 95% intervals
are over training seeds, of a single one over episodes. Writes results.json to --out.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import envs  # noqa: F401  (registers the tasks)
from benchmarks.options import parsed, run, whole
from mac_policy import Policy, load_policy
from mac_policy.common.labels import numbers
from mac_policy.common.provenance import run_record, write_json
from mac_policy.common.statistics import mean_over_seeds, with_interval
from mac_policy.tasks import TASKS
from mac_policy.tasks.task import Environment

MEASURES = ("distance at the end", "least distance", "goal completed")


def measure(
    policy: Policy, env: Environment, seed: int, place: Mapping[str, float], told: bool, goal: str
) -> list[float]:
    """The measures of one episode."""
    columns = [label.observed for label in numbers(policy.labels) if label.name in place]
    wanted = [place[label.name] for label in numbers(policy.labels) if label.name in place]
    observation, info = env.reset(seed=seed)
    state, ended, distances = None, False, []
    while not ended:
        action, state = policy.step(observation, state, labels=place if told else None, deterministic=True)
        observation, _, terminated, truncated, info = env.step(action)
        distances.append(float(np.linalg.norm(observation[columns] - wanted)))
        ended = terminated or truncated
    return [distances[-1], min(distances), float(goal in info.get("completed", ()))]


def compare(
    folders: Sequence[Path], options: argparse.Namespace, place: Mapping[str, float]
) -> dict[str, NDArray[np.float64]]:
    """(folders, episodes, measures) of each arm."""
    found: dict[str, list[Any]] = {"told": [], "not told": []}
    for folder in folders:
        policy = load_policy(folder)
        policy.said(place, 1)  # names what cannot be said before anything moves
        env = TASKS.find(options.task).environment_for(policy.observation_dim)()
        for arm, values in found.items():
            seeds = range(options.seed, options.seed + options.episodes)
            values.append([measure(policy, env, seed, place, arm == "told", options.goal) for seed in seeds])
    return {arm: np.array(values) for arm, values in found.items()}


def parse_place(text: str) -> dict[str, float]:
    """The numbers of a text such as 'kettle_x=-0.23,kettle_y=0.75'."""
    try:
        return {name: float(value) for name, value in (part.split("=") for part in text.split(","))}
    except ValueError as error:
        raise ValueError(f"--say {text}: write name=number,name=number ({error})") from error


def main() -> None:
    options = parse()
    record: dict[str, Any] = run_record(options.seed) | {"policies": list(map(str, options.policies)), "places": {}}
    for text in options.say:
        found = compare(options.policies, options, parse_place(text))
        found["difference"] = found["told"] - found["not told"]
        print(f"\n| {text} | {' | '.join(MEASURES)} |\n| --- |{' --- |' * len(MEASURES)}")
        cells = record["places"].setdefault(text, {})
        for arm, values in found.items():
            means = [mean_over_seeds(list(values[..., i]))._asdict() for i in range(len(MEASURES))]
            cells[arm] = dict(zip(MEASURES, means, strict=True))
            print(f"| {arm} | {' | '.join(with_interval(mean, '.2f') for mean in means)} |", flush=True)
    print(write_json(options.out / "results.json", record))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policies", type=Path, nargs="+", help="folders of policies, one a training seed")
    parser.add_argument("--task", default="kitchen-intent")
    parser.add_argument("--say", action="append", required=True, metavar="NAME=NUMBER,...", help="a place to be told")
    parser.add_argument("--goal", default="kettle", help="whose completion is counted")
    parser.add_argument("--episodes", type=whole(1), default=30)
    parser.add_argument("--seed", type=int, default=10_000, help="of the first episode [10000]")
    parser.add_argument("--out", type=Path, default=Path("runs/pointing"))
    return parsed(parser)


if __name__ == "__main__":
    run(main)
