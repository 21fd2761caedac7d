"""How well trained policies do alone, over training seeds and episodes.

    python benchmarks/full_autonomy.py runs/kitchen-mixed/mac-s*                    # as they were trained
    python benchmarks/full_autonomy.py runs/kitchen-mixed/*-s* --episodes 50 --start randomised
    python benchmarks/full_autonomy.py runs/kitchen-mixed/mac-s* --decode mode sample best --temperature 0.3 1
    python benchmarks/full_autonomy.py runs/kitchen-mixed/mac-s* --set noise=episode --set stickiness=1,5

Folders called <name>-s<seed> are the training seeds of one arm. Options with several values are tried in all
combinations, without another training. Episode i starts from the same seed for every policy. With --out an interrupted
run resumes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

import envs  # noqa: F401  (registers the tasks)
from benchmarks.options import run
from mac_policy.common.checks import check_choice
from mac_policy.common.files import CheckpointError
from mac_policy.common.provenance import run_record, write_json
from mac_policy.evaluation.episode_store import EpisodeStore
from mac_policy.evaluation.report.summary import differences, summarise
from mac_policy.evaluation.report.tables import Grid, interval, reward_table, task_table
from mac_policy.evaluation.rollout import Results, Rollout, roll_out
from mac_policy.evaluation.teams import Team
from mac_policy.policies.checkpoint import SavedPolicy, read_config
from mac_policy.policies.registry import POLICIES
from mac_policy.tasks import TASKS, Task


class Job(NamedTuple):
    """One policy in one variant."""

    folder: Path
    arm: str
    training_seed: int
    settings: dict[str, Any]


def main() -> None:
    options = parse()
    jobs = plan(options)
    record = measure(jobs, options)
    show(record)
    print(write_json(Path(options.out) / "results.json", record))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", help="policy folders, or folders that hold some")
    parser.add_argument("--task", help="[the name of the folder that holds the runs]")
    parser.add_argument("--episodes", type=int, default=50)
    parser.add_argument("--seed", type=int, default=10_000, help="of the first episode [10000]")
    parser.add_argument("--start", help="of the kitchen's episodes: official or randomised")
    parser.add_argument("--sensors", help="of the kitchen: stock or d4rl")
    parser.add_argument("--decode", nargs="+", default=[], help="of MAC: mode, sample, mean, best")
    parser.add_argument("--temperature", nargs="+", type=float, default=[])
    parser.add_argument("--execute", nargs="+", type=int, default=[], help="planned steps to carry out")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=V1,V2", help="any other setting")
    parser.add_argument("--weights", choices=["last", "best"], default="last")
    parser.add_argument("--envs", type=int, default=10, help="environments stepped together")
    parser.add_argument("--workers", type=int, default=1, help="processes, each with its own environments")
    parser.add_argument("--out", default=f"runs/full_autonomy/{datetime.now():%Y-%m-%d_%H-%M-%S}")
    return parser.parse_args()


def plan(options: argparse.Namespace) -> list[Job]:
    """Every policy in every variant that changes it."""
    jobs = []
    configs = {folder: read_config(folder) for folder in find_folders(options.folders)}
    known = {key for config in configs.values() for key in config["settings"]}
    for key in variants(options)[0]:
        check_choice("setting of these policies", key, sorted(known))
    for folder, config in configs.items():
        check_untold(folder, config)
        name, seed = run_name(folder)
        for variant in variants(options):
            usable = {key: value for key, value in variant.items() if key in config["settings"]}
            acting = usable.get("decode") or config["settings"].get("decode_alone") or config["settings"].get("decode")
            if acting in ("mode", "mean"):
                usable.pop("temperature", None)  # which would make it sample
            label = ",".join([name, *(f"{key}={value}" for key, value in usable.items())])
            if "decode" in usable and "decode_alone" in config["settings"]:
                usable.setdefault("decode_alone", None)  # a policy alone would choose by it
            job = Job(folder, label, seed, usable)
            if job not in jobs:
                jobs.append(job)
    check_seeds(jobs)
    return jobs


def check_untold(folder: Path, config: dict[str, Any]) -> None:
    """ValueError for a policy that does nothing unless it is told its labels."""
    is_told = POLICIES.find(config["policy"]).labels_as == "inputs" and config["settings"].get("labels", True)
    if is_told and config["spaces"].get("labels"):
        raise ValueError(
            f"{folder} has to be told its labels, and nobody tells a policy alone: leave it out, or roll it out by "
            "scripts/shared_autonomy.py as an arm that ends in -told"
        )


def find_folders(given: list[str]) -> list[Path]:
    found: list[Path] = []
    for entry in given:
        path = Path(entry)
        inside = [path] if (path / "config.json").exists() else sorted(p.parent for p in path.glob("**/config.json"))
        if not inside:
            raise CheckpointError(f"{path} is no policy folder and holds none")
        found += [folder for folder in inside if folder not in found]
    return found


def run_name(folder: Path) -> tuple[str, int]:
    """An arm's name and training seed; the folder mac-s3 is seed 3 of mac."""
    match = re.fullmatch(r"(.+)-s(\d+)", folder.resolve().name)
    return (match[1], int(match[2])) if match else (folder.resolve().name, 0)


def check_seeds(jobs: list[Job]) -> None:
    for (arm, seed), count in Counter((job.arm, job.training_seed) for job in jobs).items():
        if count > 1:
            folders = [str(job.folder) for job in jobs if job.arm == arm]
            raise ValueError(f"seed {seed} of {arm} is given {count} times: {', '.join(folders)}")


def variants(options: argparse.Namespace) -> list[dict[str, Any]]:
    axes: dict[str, list[Any]] = {}
    for key in ("decode", "temperature", "execute"):
        if values := getattr(options, key):
            axes[key] = values
    for entry in options.set:
        key, separator, values = entry.partition("=")
        if not separator:
            raise ValueError(f"--set {entry}: write KEY=VALUE")
        axes[key] = [parse_value(value) for value in values.split(",")]
    return [dict(zip(axes, combination, strict=True)) for combination in itertools.product(*axes.values())]


def parse_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


# ---- measuring ----


def measure(jobs: list[Job], options: argparse.Namespace) -> dict[str, Any]:
    """Roll out every job; a results.json record."""
    tasks = {options.task or job.folder.resolve().parent.name for job in jobs}
    if len(tasks) > 1:
        raise ValueError(f"these policies are for different tasks: {', '.join(sorted(tasks))}")
    chosen = {"start": options.start, "sensors": options.sensors}
    options_of_task = {name: value for name, value in chosen.items() if value is not None}
    task = TASKS.find(tasks.pop()).with_options(options_of_task)
    results = roll_out_all(jobs, task, options)
    dataset = read_config(jobs[0].folder)["dataset"]
    return run_record(options.seed, dataset) | {
        "task": task.name,
        "environment": task.identity(),
        "description": task.describe(),
        "arms": {arm: summarise(seeds, task.goals) for arm, seeds in results.items()},
        "paired": differences(results, next(iter(results))),
    }


def roll_out_all(jobs: list[Job], task: Task, options: argparse.Namespace) -> Results:
    """Every policy in the environment with the observations it was trained on."""
    sizes = {job.folder: read_config(job.folder)["spaces"]["observation"]["shape"][0] for job in jobs}
    found: Results = {}
    for size in dict.fromkeys(sizes.values()):
        rollout = Rollout(task.environment_for(size), options.episodes, options.seed, options.envs)
        teams = [
            Team(job.arm, job.training_seed, SavedPolicy.of(job.folder, job.settings, options.weights))
            for job in jobs
            if sizes[job.folder] == size
        ]
        for arm, seeds in roll_out(rollout, teams, EpisodeStore(options.out), workers=options.workers).items():
            found.setdefault(arm, {}).update(seeds)
    return {arm: dict(sorted(found[arm].items())) for arm in dict.fromkeys(job.arm for job in jobs)}


def show(record: dict[str, Any]) -> None:
    dataset, console = record["dataset"], Console(highlight=False)
    console.print(f"{record['description']}; no operator; data: {dataset.get('name')} ({dataset.get('source')})")
    grids: list[Grid] = [reward_table(record["arms"]), task_table(record["arms"])]
    for grid in grids:
        console.print(grid.rich())
    for arm, found in record["arms"].items():
        if found["fallback_steps"]:
            console.print(f"{arm}: stood still in {found['fallback_steps']} of {found['steps']} steps", soft_wrap=True)
    for name, gap in record["paired"].items():
        console.print(f"{name}: {gap['mean']:+.2f} ({interval(gap['ci95'], '+')})", soft_wrap=True)


if __name__ == "__main__":
    run(main)
