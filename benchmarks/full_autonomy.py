"""How well trained policies do alone, over training seeds and episodes.

    python benchmarks/full_autonomy.py runs/kitchen-mixed/mac-s*                    # as they were trained
    python benchmarks/full_autonomy.py runs/kitchen-mixed/*-s* --episodes 50 --start randomised
    python benchmarks/full_autonomy.py runs/kitchen-mixed/mac-s* --decode mode sample best --temperature 0.3 1
    python benchmarks/full_autonomy.py runs/kitchen-mixed/mac-s* --set noise=episode --set stickiness=1,5

Folders called <name>-s<seed> are the training seeds of one arm. Options with several values are tried in all
combinations, without training anew. Episode i starts from the same seed for every policy.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks._evaluation import make_env, roll_out
from mac_policy.autonomy.intervals import two_level_interval, wilson_interval
from mac_policy.checks import check_choice
from mac_policy.policies.checkpoint import CheckpointError, load_policy, read_config
from mac_policy.provenance import run_record, write_json


class Job(NamedTuple):
    """One policy in one variant."""

    folder: Path
    arm: str
    training_seed: int
    settings: dict[str, Any]


def main() -> None:
    options = parse()
    try:
        jobs = plan(options)
        record = measure(jobs, options)
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
    show(record)
    print(write_json(Path(options.out) / "results.json", record))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", help="policy folders, or folders that hold some")
    parser.add_argument("--task", help="[the name of the folder that holds the runs]")
    parser.add_argument("--episodes", type=int, default=50)
    parser.add_argument("--seed", type=int, default=10_000, help="of the first episode [10000]")
    parser.add_argument("--start", choices=["official", "randomised"], default="official")
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
        name, seed = run_name(folder)
        for variant in variants(options):
            usable = {key: value for key, value in variant.items() if key in config["settings"]}
            if usable.get("decode", config["settings"].get("decode")) in ("mode", "mean"):
                usable.pop("temperature", None)  # which would make it sample
            label = ",".join([name, *(f"{key}={value}" for key, value in usable.items())])
            job = Job(folder, label, seed, usable)
            if job not in jobs:
                jobs.append(job)
    check_seeds(jobs)
    return jobs


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
    (task,) = tasks
    portions = [jobs[i :: options.workers] for i in range(min(options.workers, len(jobs)))]
    arguments = [(portion, task, options) for portion in portions]
    if len(portions) == 1:
        results = run_portion(*arguments[0])
    else:
        with ProcessPoolExecutor(len(portions)) as pool:
            results = [row for part in pool.map(run_portion, *zip(*arguments, strict=True)) for row in part]
    arms: dict[str, dict[int, dict[str, Any]]] = {}
    for job, found in results:
        arms.setdefault(job.arm, {})[job.training_seed] = found
    ordered = {arm: dict(sorted(arms[arm].items())) for arm in dict.fromkeys(job.arm for job in jobs)}
    dataset = read_config(jobs[0].folder)["dataset"]
    return run_record(options.seed, dataset) | {
        "task": task,
        "start": options.start,
        "arms": {arm: summarise(seeds, options.envs) for arm, seeds in ordered.items()},
        "paired": compare(ordered),
    }


def run_portion(jobs: list[Job], task: str, options: argparse.Namespace) -> list[tuple[Job, dict[str, Any]]]:
    import torch

    torch.set_num_threads(1)
    environments: dict[int, list[Any]] = {}
    results = []
    for job in jobs:
        policy = load_policy(job.folder, settings=job.settings, weights=options.weights)
        size = policy.observation_dim
        if size not in environments:
            count = min(options.envs, options.episodes)
            environments[size] = [make_env(task, size, options.start) for _ in range(count)]
        found = roll_out(policy, environments[size], options.episodes, options.seed)
        print(f"{job.arm} seed {job.training_seed}: {np.mean(found.rewards):.2f}", flush=True)
        results.append((job, found.__dict__))
    return results


def summarise(seeds: dict[int, dict[str, Any]], batch: int) -> dict[str, Any]:
    rewards = [np.array(found["rewards"]) for found in seeds.values()]
    means = np.array([episodes.mean() for episodes in rewards])
    completed = [set(tasks) for found in seeds.values() for tasks in found["completed"]]
    calls = np.concatenate([found["call_ms"] for found in seeds.values()])
    done = Counter(task for tasks in completed for task in tasks)
    return {
        "reward_mean": float(means.mean()),
        "reward_se": float(means.std(ddof=1) / len(means) ** 0.5) if len(means) > 1 else None,
        "ci95": list(two_level_interval(rewards)),
        "episodes": sum(map(len, rewards)),
        "training_seeds": list(seeds),
        "seed_means": means.tolist(),
        "per_task": {
            task: {"rate": count / len(completed), "ci95": list(wilson_interval(count, len(completed)))}
            for task, count in done.most_common()
        },
        "latency_ms": {f"p{q}": float(np.percentile(calls, q)) for q in (50, 95, 99)} | {"batch": batch},
        "rewards": [episodes.tolist() for episodes in rewards],
    }


def compare(arms: dict[str, dict[int, dict[str, Any]]]) -> dict[str, Any]:
    """Each arm minus the first, on the training seeds and episodes they share."""
    first, *others = arms
    result = {}
    for other in others:
        if shared := [seed for seed in arms[other] if seed in arms[first]]:
            gaps = [np.array(arms[other][s]["rewards"]) - np.array(arms[first][s]["rewards"]) for s in shared]
            result[f"{other} - {first}"] = {
                "mean": float(np.mean([gap.mean() for gap in gaps])),
                "ci95": list(two_level_interval(gaps)),
                "training_seeds": shared,
            }
    return result


def show(record: dict[str, Any]) -> None:
    dataset = record["dataset"]
    title = f"{record['task']} alone, {record['start']} start; data: {dataset.get('name')} ({dataset.get('source')})"
    table = Table(title=title)
    for name in ("arm", "reward", "95% interval", "each seed", "tasks done", "call, ms"):
        table.add_column(name, no_wrap=name in ("reward", "95% interval"), overflow="fold")
    for arm, row in record["arms"].items():
        tasks = ", ".join(f"{task} {entry['rate']:.0%}" for task, entry in row["per_task"].items())
        interval = "{:.2f} to {:.2f}".format(*row["ci95"])
        spread = f" ± {row['reward_se']:.2f}" if row["reward_se"] is not None else ""
        each = " ".join(f"{mean:.2f}" for mean in row["seed_means"])
        call = f"{row['latency_ms']['p50']:.1f}"
        table.add_row(arm, f"{row['reward_mean']:.2f}{spread}", interval, each, tasks, call)
    console = Console()
    console.print(table)
    for name, gap in record["paired"].items():
        console.print(f"{name}: {gap['mean']:+.2f} ({gap['ci95'][0]:+.2f} to {gap['ci95'][1]:+.2f})", highlight=False)


if __name__ == "__main__":
    main()
