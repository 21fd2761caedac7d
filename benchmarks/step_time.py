"""How long a step of trained policies takes, side by side.

    OMP_NUM_THREADS=1 python benchmarks/step_time.py runs/kitchen-complete/bc-s0 runs/kitchen-complete/mac-s0

The policies walk along demonstrations whose actions command some dims, with all that they keep from step to step:
chunks are carried out and plans are kept or made anew as in an episode. All take each step in turn, in changing order.
For each set of dims: processor time of a step in milliseconds, its ratio to that of the first policy with Student's 95%
interval over the episodes, and the time that 95% of the steps stay below. Writes results.json to --out.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import envs  # noqa: F401  (registers the tasks)
from benchmarks.options import add_commanded, existing_folder, parsed, run, whole
from mac_policy import Demonstrations, Policy, load_policy
from mac_policy.common.provenance import run_record, write_json
from mac_policy.common.statistics import mean_over_seeds
from mac_policy.operators.dims import OperatorDims
from mac_policy.tasks import TASKS

WARM_UP = 5  # steps of an episode that are not timed


def walk(policies: list[Policy], demos: Demonstrations, episode: int, mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Milliseconds (steps, policies) along an episode."""
    one: Demonstrations = demos.select([episode])
    states: list[Any] = [None] * len(policies)
    taken = []
    for step, (observation, action) in enumerate(zip(one.observations, one.actions, strict=True)):
        held: tuple[Any, ...] = (action, mask) if mask.any() else (None, None)
        row = np.zeros(len(policies))
        for place in np.roll(np.arange(len(policies)), step):
            began = time.process_time()
            _, states[place] = policies[place].step(observation, states[place], *held)
            row[place] = 1e3 * (time.process_time() - began)
        taken.append(row)
    return np.array(taken[WARM_UP:])


def main() -> None:
    options = parse()
    demos = TASKS.find(options.task).load_demonstrations(source=options.source, episodes=options.episodes)
    policies = [load_policy(folder) for folder in options.policies]
    record: dict[str, Any] = run_record(0) | {"policies": [str(folder) for folder in options.policies], "dims": {}}
    print("| dims held | policy | ms | ratio to the first | 95% of steps, ms |\n| --- | --- | --- | --- | --- |")
    for spec in options.dims:
        mask = OperatorDims.parse(0 if spec == "none" else spec, policies[0].action_dim).masks(np.array([0]))[0]
        walks = [walk(policies, demos, episode, mask) for episode in range(min(options.walks, len(demos)))]
        means, most = np.array([each.mean(0) for each in walks]), np.percentile(np.concatenate(walks), 95, axis=0)
        for place, folder in enumerate(options.policies):
            ratio = mean_over_seeds([row[place : place + 1] / row[0] for row in means])
            ends = "" if ratio.ci95 is None or not place else f" ({ratio.ci95[0]:.2f} to {ratio.ci95[1]:.2f})"
            record["dims"].setdefault(spec, {})[str(folder)] = {
                "ms": means[:, place].mean(), "ms_of_episodes": means[:, place].tolist(), "p95": most[place],
                "ratio": ratio._asdict(),
            }  # fmt: skip
            ms = means[:, place].mean()
            print(f"| {spec} | {folder} | {ms:.2f} | {ratio.mean:.2f}{ends} | {most[place]:.2f} |", flush=True)
    print(write_json(options.out / "results.json", record))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policies", type=existing_folder, nargs="+", help="folders of policies of one task")
    add_commanded(parser)
    parser.set_defaults(task="kitchen-complete", dims=["none", "1", "0,1,2,3"])
    parser.add_argument("--walks", type=whole(1), default=6, help="episodes that are walked along")
    parser.add_argument("--out", type=Path, default=Path("runs/step_time"))
    return parsed(parser)


if __name__ == "__main__":
    run(main)
