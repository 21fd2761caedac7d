"""What a belief adds to the time of one decision.

    OMP_NUM_THREADS=1 python benchmarks/belief_cost.py runs/kitchen-intent/mac-s0 --episodes 1200

A MAC with labels decides along demonstrations whose actions command some dims: once it infers its label, once it is
told it, which needs no belief. Both decide at every step in turn. For each set of dims: processor time of a decision in
milliseconds, and the ratio with Student's 95% interval over walks. With --rows a decision is one for as many episodes
at once. Writes results.json to --out.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import envs  # noqa: F401  (registers the tasks)
from benchmarks.options import add_commanded, parsed, run, whole
from mac_policy import Demonstrations, Policy, load_policy
from mac_policy.common.provenance import run_record, write_json
from mac_policy.common.statistics import mean_over_seeds
from mac_policy.operators.dims import OperatorDims
from mac_policy.tasks import TASKS

WARM_UP = 5  # steps of an episode that are not timed


def walk(policy: Policy, demos: Demonstrations, episodes: range, mask: NDArray[np.bool_]) -> tuple[float, float]:
    """Mean milliseconds of a decision along episodes side by side: inferring the label, and told it."""
    rows = [demos.select([episode]) for episode in episodes]
    steps = min(row.steps for row in rows)
    if any(row.labels is None for row in rows):
        raise ValueError(f"{demos.source.name} has no labels")
    parts = (np.stack([part[:steps] for part in each], 1) for each in zip(*map(arrays, rows), strict=True))
    masks = np.tile(mask, (len(rows), 1))
    states: dict[bool, Any] = {True: None, False: None}
    taken: dict[bool, list[float]] = {True: [], False: []}
    for step, (observation, action, codes) in enumerate(zip(*parts, strict=True)):
        if (codes < 0).any():
            break
        turns = (True, False) if step % 2 else (False, True)
        for inferred in turns:
            held = (action, masks) if mask.any() else (None, None)
            began = time.process_time()
            _, states[inferred] = policy.step(observation, states[inferred], *held, labels=None if inferred else codes)
            taken[inferred].append(1e3 * (time.process_time() - began))
    inferred_ms, told_ms = (float(np.mean(taken[which][WARM_UP:])) for which in (True, False))
    return inferred_ms, told_ms


def arrays(demos: Demonstrations) -> tuple[Any, ...]:
    """What is observed, commanded and wanted at each step."""
    return demos.observations[: demos.steps], demos.actions, demos.labels


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
        starts = range(0, min(options.walks * options.rows, len(demos) - options.rows + 1), options.rows)
        times = np.array([walk(policy, demos, range(start, start + options.rows), mask) for start in starts])
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
    parser.add_argument("--walks", type=whole(1), default=6, help="[6]")
    parser.add_argument("--rows", type=whole(1), default=1, help="episodes that a walk goes along side by side [1]")
    parser.add_argument("--out", type=Path, default=Path("runs/belief_cost"))
    return parsed(parser)


if __name__ == "__main__":
    run(main)
