"""How many demonstrations does a policy need? Trains on the first n of a shuffle of the episodes, and rolls out.

    python benchmarks/demonstrations_needed.py --task kitchen-complete --source human --numbers 1 2 5 10 19

Training seed s shuffles the episodes by itself and takes the first n, so that the sets of a seed are nested. Writes a
table, results.json and demonstrations.png to --out; an interrupted run resumes.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

import envs  # noqa: F401  (registers the tasks)
from benchmarks.options import run
from mac_policy import Demonstrations, Spaces, TrainSettings, make_policy, train
from mac_policy.cli.composing import compose
from mac_policy.cli.train_policy import COMMAND
from mac_policy.common.files import write_figure
from mac_policy.common.processes import map_processes
from mac_policy.common.provenance import run_record, write_json
from mac_policy.common.settings import from_mapping
from mac_policy.common.statistics import mean_over_seeds
from mac_policy.evaluation.episode_store import EpisodeStore
from mac_policy.evaluation.rollout import Rollout, roll_out
from mac_policy.evaluation.teams import Team
from mac_policy.policies.checkpoint import SavedPolicy
from mac_policy.tasks import TASKS


def subset(demos: Demonstrations, number: int, seed: int) -> Demonstrations:
    """The first `number` episodes of the seed's shuffle."""
    chosen = np.random.default_rng(seed).permutation(len(demos))[:number]
    return Demonstrations.of(
        [demos.episodes[i] for i in sorted(chosen)], name=demos.source.name, kind=demos.source.kind
    )


def fit(options: argparse.Namespace, job: tuple[str, int, int]) -> str:
    """Train one policy, unless it is trained; its folder."""
    kind, number, seed = job
    torch.set_num_threads(1)
    folder = options.runs / f"{kind}-n{number}-s{seed}"
    config = compose(COMMAND, [f"task={options.task}", f"preset={options.preset}", f"policy={kind}"])
    task = TASKS.find(options.task)
    demos = task.load_demonstrations(source=options.source)
    observed = spaces.Box(-np.inf, np.inf, (demos.observation_dim,), np.float32)
    policy = make_policy(kind, Spaces.of(observed, task.action_space_of(demos), task.actions), config[kind], seed)
    settings = from_mapping(TrainSettings, config["training"], "training settings")
    train(policy, subset(demos, number, seed), settings, folder, seed=seed, quiet=True)
    return str(folder)


def main() -> None:
    options = parse()
    jobs = [(kind, number, seed) for number in options.numbers for kind in options.policies for seed in options.seeds]
    for done, folder in enumerate(map_processes(partial(fit, options), jobs, options.workers), 1):
        print(f"{done} of {len(jobs)} trained: {folder}", flush=True)
    record: dict[str, Any] = run_record(options.seeds[0]) | {"numbers": options.numbers, "sensors": {}}
    for sensors in options.sensors:
        task = TASKS.find(options.task).with_options(sensors=sensors)
        rollout = Rollout(task.environment_for(30), options.episodes, together=10)
        teams = [
            Team(f"{kind}-n{number}", seed, SavedPolicy.of(options.runs / f"{kind}-n{number}-s{seed}"))
            for kind, number, seed in jobs
        ]
        results = roll_out(rollout, teams, EpisodeStore(options.out), workers=options.workers)
        found = {
            arm: mean_over_seeds([np.array([episode.reward for episode in episodes]) for episodes in seeds.values()])
            for arm, seeds in results.items()
        }
        record["sensors"][sensors] = {arm: mean._asdict() for arm, mean in found.items()}
        show(sensors, options, record["sensors"][sensors])
    draw(options, record["sensors"])
    print(write_json(options.out / "results.json", record))


def show(sensors: str, options: argparse.Namespace, arms: dict[str, Any]) -> None:
    print(
        f"\n{options.task}, {sensors} sensors\n\n| policy | demonstrations | tasks | 95% interval | each seed |\n"
        "| --- | --- | --- | --- | --- |"
    )
    for kind in options.policies:
        for number in options.numbers:
            arm = arms[f"{kind}-n{number}"]
            each = " ".join(f"{value:.2f}" for value in arm["per_seed"])
            ends = "" if arm["ci95"] is None else f"{arm['ci95'][0]:.2f} to {arm['ci95'][1]:.2f}"
            print(f"| {kind} | {number} | {arm['mean']:.2f} | {ends} | {each} |")


def draw(options: argparse.Namespace, by_sensors: dict[str, Any]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(by_sensors), 3.2), layout="constrained")
    for axes, (sensors, arms) in zip(
        figure.subplots(1, len(by_sensors), squeeze=False)[0], by_sensors.items(), strict=True
    ):
        for kind, colour in zip(options.policies, ("tab:blue", "tab:orange", "tab:green"), strict=False):
            values = np.array([arms[f"{kind}-n{number}"]["per_seed"] for number in options.numbers])
            axes.plot(options.numbers, values.mean(1), color=colour, marker="o", label=kind)
            axes.plot(options.numbers, values, color=colour, linestyle="", marker=".", alpha=0.4)
        axes.set(xscale="log", ylim=(0, 4.1), xlabel="demonstrations", ylabel="tasks of 4", title=f"{sensors} sensors")
        axes.set_xticks(options.numbers, [str(number) for number in options.numbers])
        axes.legend(loc="lower right")
    write_figure(options.out / "demonstrations.png", figure, dpi=150)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="kitchen-complete")
    parser.add_argument("--source", default="human", help="of the demonstrations [human]")
    parser.add_argument("--preset", default="few")
    parser.add_argument("--policies", nargs="+", default=["mac", "bc"])
    parser.add_argument("--numbers", nargs="+", type=int, default=[1, 2, 5, 10, 19], help="of demonstrations")
    parser.add_argument("--seeds", nargs="+", type=int, default=[20, 21, 22, 23, 24], help="of training")
    parser.add_argument("--sensors", nargs="+", default=["stock", "d4rl"])
    parser.add_argument("--episodes", type=int, default=50)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--runs", type=Path, default=Path("runs/demonstrations_needed"), help="trained policies")
    parser.add_argument("--out", type=Path, default=Path("runs/demonstrations_needed"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    return options


if __name__ == "__main__":
    run(main)
