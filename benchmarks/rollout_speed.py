"""How much of the bare environment's speed is left when policies act in it.

    python benchmarks/rollout_speed.py runs/kitchen-mixed                      # bc and mac, alone and with an operator
    python benchmarks/rollout_speed.py runs/kitchen-mixed --arms bc --together 4

Each worker rolls out episodes of an arm and then steps the same environments through the same actions without any
policy; all workers do so at the same time, one thread each. The share is of processor time; steps a second and the
seconds for 100 episodes are of the clock, and want an idle machine.
"""

from __future__ import annotations

import argparse
import functools
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import envs  # noqa: F401  (registers the tasks)
from benchmarks.options import run
from mac_policy.common.processes import map_processes
from mac_policy.common.provenance import run_record, write_json
from mac_policy.evaluation.arms import Runs, make_teams, parse_arm
from mac_policy.evaluation.group import Job, run_job
from mac_policy.evaluation.rollout import Rollout
from mac_policy.evaluation.teams import OperatorChoice, Team
from mac_policy.operators.dims import OperatorDims
from mac_policy.operators.registry import make_kind
from mac_policy.policies.checkpoint import read_config
from mac_policy.tasks import TASKS, TaskEnvironment


class Speed(NamedTuple):
    """Of one worker."""

    steps: int
    seconds: float
    cpu: float
    bare_cpu: float
    """Seconds of processor time; one thread's work, which is the same beside other work."""


class Recorder(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Keeps what was done, to do it again."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.done: list[Any] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.done.append(seed)
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        self.done.append(action)
        return self.env.step(action)

    def again(self) -> None:
        for entry in self.done:
            if isinstance(entry, np.ndarray):
                self.env.step(entry)
            else:
                self.env.reset(seed=entry)


@dataclass(frozen=True)
class Recording:
    """A factory of environments that are recorded; `made` is this process's own."""

    inner: TaskEnvironment
    made: list[Recorder] = field(default_factory=list, compare=False)

    def __call__(self) -> Recorder:
        self.made.append(Recorder(self.inner()))
        return self.made[-1]

    def identity(self) -> dict[str, Any]:
        return self.inner.identity()


def main() -> None:
    options = parse()
    record = measure(options)
    show(record)
    print(write_json(Path(options.out) / "results.json", record))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="runs/<task>")
    parser.add_argument("--arms", nargs="+", default=["bc", "mac", "operator+bc", "operator+mac"])
    parser.add_argument("--operator-dims", default="4")
    parser.add_argument("--training-seed", type=int, default=0)
    parser.add_argument("--together", type=int, default=8, help="environments in each worker")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", default="runs/benchmarks/rollout_speed")
    return parser.parse_args()


def measure(options: argparse.Namespace) -> dict[str, Any]:
    task = options.folder.name
    space = TASKS.find(task).make().action_space
    operator = OperatorChoice(make_kind("bc"), OperatorDims.parse(options.operator_dims, space.shape[0]))
    runs = Runs(options.folder.parent, task)
    teams = make_teams([parse_arm(name) for name in options.arms], [options.training_seed], runs, operator)
    arms = {}
    for team in teams:
        each = list(map_processes(functools.partial(in_worker, options.together), [team] * options.workers))
        steps = sum(speed.steps for speed in each)
        slowest = max(speed.seconds for speed in each)
        cpu, bare = (sum(speed[i] for speed in each) for i in (2, 3))
        arms[team.arm] = {
            "steps": steps,
            "steps_a_second": steps / slowest,
            "cpu_ms_a_step": 1e3 * cpu / steps,
            "bare_cpu_ms_a_step": 1e3 * bare / steps,
            "share": bare / cpu,
            "seconds_for_100_episodes": 100 * slowest / (options.together * options.workers),
        }
    settings = {"together": options.together, "workers": options.workers, "operator_dims": options.operator_dims}
    return run_record(None) | {"task": task, "settings": settings, "arms": arms}


def in_worker(together: int, team: Team) -> Speed:
    """One group of episodes with the team, then the same without it."""
    torch.set_num_threads(1)
    assert team.filler is not None  # noqa: S101
    size = read_config(team.filler.folder)["spaces"]["observation"]["shape"][0]
    make_env = Recording(TASKS.find(Path(team.filler.folder).parent.name).environment_for(size))
    rollout = Rollout(make_env, together, together=together)
    job = Job(team, rollout.key(team), 0, together)
    run_job(rollout, job)  # what is slow the first time
    for env in make_env.made:
        env.done.clear()
    began, began_cpu = time.perf_counter(), time.process_time()
    records = run_job(rollout, job)
    seconds, cpu = time.perf_counter() - began, time.process_time() - began_cpu
    began_cpu = time.process_time()
    for env in make_env.made:
        env.again()
    return Speed(sum(record.steps for record in records), seconds, cpu, time.process_time() - began_cpu)


def show(record: dict[str, Any]) -> None:
    settings = record["settings"]
    title = f"{record['task']}: {settings['workers']} workers with {settings['together']} environments each"
    table = Table("arm", "CPU ms a step", "bare", "share", "steps/s", "100 episodes, s", title=title)
    for arm, row in record["arms"].items():
        table.add_row(
            arm,
            f"{row['cpu_ms_a_step']:.2f}",
            f"{row['bare_cpu_ms_a_step']:.2f}",
            f"{row['share']:.0%}",
            f"{row['steps_a_second']:.0f}",
            f"{row['seconds_for_100_episodes']:.0f}",
        )
    Console().print(table)


if __name__ == "__main__":
    run(main)
