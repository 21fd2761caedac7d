"""What a belief adds to the time of one decision.

    OMP_NUM_THREADS=1 python benchmarks/belief_cost.py runs/kitchen-intent/mac-s0 --episodes 1200

A MAC with labels decides along demonstrations whose actions command some dims: once it infers its label, once it is
told it, which needs no belief. Both decide at every step in turn. For each set of dims: processor time of a decision in
milliseconds, and the ratio with Student's 95% interval over episodes. Writes results.json to --out.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import envs  # noqa: F401  (registers the tasks)
from benchmarks.options import add_commanded, parsed, run
from mac_policy import Demonstrations, Policy, load_policy
from mac_policy.common.provenance import run_record, write_json
from mac_policy.common.statistics import mean_over_seeds
from mac_policy.operators.dims import OperatorDims
from mac_policy.tasks import TASKS

WARM_UP = 5  # steps of an episode that are not timed


def walk(policy: Policy, demos: Demonstrations, episode: int, mask: NDArray[np.bool_]) -> tuple[float, float]:
    """Mean milliseconds of a decision along an episode: inferring the label, and told it."""
    one = demos.select([episode])
    labels = one.labels
    if labels is None:
        raise ValueError(f"{demos.source.name} has no labels")
    states: dict[bool, Any] = {True: None, False: None}
    taken: dict[bool, list[float]] = {True: [], False: []}
    command = () if not mask.any() else (mask,)
    for step, (observation, action, codes) in enumerate(zip(one.observations, one.actions, labels, strict=True)):
        if (codes < 0).any():
            break
        turns = (True, False) if step % 2 else (False, True)
        for inferred in turns:
            held = (action, *command) if command else (None, None)
            began = time.process_time()
            _, states[inferred] = policy.step(observation, states[inferred], *held, labels=None if inferred else codes)
            taken[inferred].append(1e3 * (time.process_time() - began))
    inferred_ms, told_ms = (float(np.mean(taken[which][WARM_UP:])) for which in (True, False))
    return inferred_ms, told_ms


def main() -> None:
    options = parse()
    demos = TASKS.find(options.task).load_demonstrations(source=options.source, episodes=options.episodes)
    policy = load_policy(options.policy)
    if not policy.labels or policy.labels_as != "variables":
        raise ValueError(f"{options.policy} infers no labels")
    record: dict[str, Any] = run_record(0) | {"policy": str(options.policy), "dims": {}}
    print("| dims held | inferred, ms | told, ms | ratio |\n| --- | --- | --- | --- |")
    for spec in options.dims:
        mask = OperatorDims.parse(0 if spec == "none" else spec, policy.action_dim).masks(np.array([0]))[0]
        times = np.array([walk(policy, demos, episode, mask) for episode in range(min(options.walks, len(demos)))])
        ratio = mean_over_seeds([times[row : row + 1, 0] / times[row : row + 1, 1] for row in range(len(times))])
        inferred, told = times.mean(0)
        record["dims"][spec] = {"inferred_ms": inferred, "told_ms": told, "ratio": ratio._asdict()}
        ends = "" if ratio.ci95 is None else f" ({ratio.ci95[0]:.2f} to {ratio.ci95[1]:.2f})"
        print(f"| {spec} | {inferred:.2f} | {told:.2f} | {ratio.mean:.2f}{ends} |", flush=True)
    print(write_json(options.out / "results.json", record))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policy", type=Path, help="folder of a MAC policy with labels")
    add_commanded(parser)
    parser.add_argument("--walks", type=int, default=6, help="episodes that are walked along")
    parser.add_argument("--out", type=Path, default=Path("runs/belief_cost"))
    return parsed(parser)


if __name__ == "__main__":
    run(main)
