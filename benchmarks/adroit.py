"""Policies of the pen of Adroit's hand: data that nobody tuned for, with absolute actions of 24 joints.

    MAC_DATA=<folder> python benchmarks/adroit.py --seeds 20 21 22 23 24

Reads <folder>/adroit/pen-human-v0.hdf5 (human demonstrations, D4RL's layout), holds ten episodes out, trains BC and MAC
with `preset=few` on the others and rolls them out in AdroitHandPen-v1: the share of episodes in which the pen has the
wanted orientation at some step. Log-density and coverage of MAC are those of the ten episodes. Policies are kept in
--runs, and a run that is broken off is resumed by the same command.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import gymnasium
import gymnasium_robotics
import numpy as np
import torch

from benchmarks.coverage import measure
from benchmarks.options import run, whole
from mac_policy import Actions, Demonstrations, Policy, Spaces, TrainSettings, make_policy, train
from mac_policy.cli.composing import compose
from mac_policy.cli.train_policy import COMMAND
from mac_policy.common.provenance import run_record, write_json
from mac_policy.common.settings import from_mapping
from mac_policy.common.statistics import mean_over_seeds
from mac_policy.tasks import MinariTask

FILE = "adroit/pen-human-v0.hdf5"
HELD_OUT = 10
KINDS = ("bc", "mac")


def successes(policy: Policy, episodes: int, seed: int) -> np.ndarray:
    """(episodes,) whether the pen had the wanted orientation at some step."""
    environments = [gymnasium.make("AdroitHandPen-v1") for _ in range(episodes)]
    seen = np.stack([env.reset(seed=seed + i)[0] for i, env in enumerate(environments)]).astype(np.float32)
    state, random = policy.initial_state(episodes), torch.Generator().manual_seed(0)
    found, running = np.zeros(episodes, bool), np.ones(episodes, bool)
    while running.any():
        actions, state = policy.step(seen, state, generator=random)
        for row in np.flatnonzero(running):
            seen[row], _, terminated, truncated, info = environments[row].step(actions[row])
            found[row] |= bool(info["success"])
            running[row] = not (terminated or truncated)
    for env in environments:
        env.close()
    return found


def trained(kind: str, seed: int, demos: Demonstrations, spaces: Spaces, options: argparse.Namespace) -> Policy:
    config = compose(COMMAND, ["task=minari", "dataset=D4RL/pen/human-v2", "preset=few", *options.options])
    policy = make_policy(kind, spaces, config[kind], seed)
    settings = from_mapping(TrainSettings, config["training"], "training settings")
    return train(policy, demos, settings, options.runs / f"{kind}-s{seed}", seed=seed, quiet=True).policy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=whole(0), nargs="+", default=[20, 21, 22, 23, 24], help="of training")
    parser.add_argument("--options", nargs="*", default=[], help="of train_policy.py, for instance training.steps=100")
    parser.add_argument("--episodes", type=whole(1), default=50)
    parser.add_argument("--seed", type=whole(0), default=10_000, help="of the first episode")
    parser.add_argument("--runs", type=Path, default=Path("runs/adroit"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    gymnasium.register_envs(gymnasium_robotics)
    path = Path(os.environ.get("MAC_DATA", ".")) / FILE
    if not path.is_file():
        sys.exit(f"error: there is no {path}: set MAC_DATA to the folder that holds {FILE}")
    demos = MinariTask(dataset=str(path)).load_demonstrations(path=path)
    order = np.random.default_rng(0).permutation(len(demos))
    test, rest = (demos.select(sorted(part.tolist())) for part in (order[:HELD_OUT], order[HELD_OUT:]))
    with gymnasium.make("AdroitHandPen-v1") as env:
        spaces = Spaces.of(env.observation_space, env.action_space, Actions(meaning="absolute"))
    record = run_record(options.seed) | {"demonstrations": len(rest), "arms": {}}
    for kind in KINDS:
        values, densities = [], []
        for seed in options.seeds:
            policy = trained(kind, seed, rest, spaces, options)
            values.append(successes(policy, options.episodes, options.seed).astype(float))
            if kind == "mac":
                with torch.no_grad():
                    densities.append(measure(policy, test))  # type: ignore[arg-type]
            print(f"{kind}, seed {seed}: {values[-1].mean():.0%}", flush=True)
        mean = mean_over_seeds(values, shared_rows=True)
        record["arms"][kind] = mean._asdict() | {"densities": densities}
        ends = "" if mean.ci95 is None else f" ({mean.ci95[0]:.0%} to {mean.ci95[1]:.0%})"
        print(f"| {kind} | {mean.mean:.0%}{ends} | {' '.join(f'{each:.0%}' for each in mean.per_seed)} |", flush=True)
        for what in densities[0] if densities else ():
            rows = np.array([each[what] for each in densities])[:, 1:].mean(0)
            print(f"| {what} | {rows[0]:.2f} | {rows[1]:.1%} | {rows[2]:.1%} |", flush=True)
    print(write_json(options.runs / "results.json", record))


if __name__ == "__main__":
    run(main)
