"""Whether one version of this package is slower than another: both are measured in turn on the same machine.

    git worktree add ../before <commit>
    OMP_NUM_THREADS=1 python benchmarks/two_checkouts.py ../before .

For each checkout a process of its own keeps the policies loaded. In each round one of them measures a step of the
filter, then the other, in alternating order; the same for training steps, and for commands that are started anew. CPU
time, so that other work on the machine counts little; of the filter's steps the mean of the quickest quarter of them.
The ratio after/before is a geometric mean over rounds, with Student's 95% interval of the paired logarithms.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

CALLS, STEPS = 40, (5, 65)
"""Steps of the filter in a round; steps of the two trainings, whose difference is what the steps between them take."""
FILTERS, TRAININGS = 5, 2
"""How many of the things that are measured are steps of the filter, and how many are training steps."""
STARTS = {
    "import mac_policy": ("-c", "import mac_policy"),
    "import ActionFilter": ("-c", "from mac_policy import ActionFilter, make_policy"),
    "train_policy.py --help": ("scripts/train_policy.py", "--help"),
    "shared_autonomy.py --help": ("scripts/shared_autonomy.py", "--help"),
}


# ---- the process of a checkout, whose package it imports ----


def filter_steps() -> dict[str, Callable[[], object]]:
    from benchmarks.action_filter import SPACES, calls
    from mac_policy.policies.registry import make_policy

    found = {}
    for kind in ("mac", "bc"):
        for name, call in calls(make_policy(kind, SPACES).eval(), 1).items():
            if name.startswith("filter"):
                found[f"{kind}, {name}"] = call
    found["bc, filler of 8 environments"] = calls(make_policy("bc", SPACES).eval(), 8)["filler"]
    return found


def trainings() -> dict[str, Callable[[], float]]:
    """CPU milliseconds of a training step of each kind of policy."""
    from mac_policy import Demonstrations, Episode, Spaces, TrainSettings, make_policy, train

    rng, n = np.random.default_rng(0), 50
    none = np.zeros(n, bool)
    episodes = [
        Episode(rng.normal(size=(n + 1, 30)).astype(np.float32), rng.uniform(-1, 1, (n, 9)).astype(np.float32),
                np.zeros(n, np.float32), none, none)
        for _ in range(20)
    ]  # fmt: skip
    demos = Demonstrations.of(episodes, name="made", kind="scripted")

    def run(kind: str, steps: int) -> float:
        from benchmarks.action_filter import SPACES

        policy = make_policy(kind, Spaces.of(*SPACES[:2]), {"width": 128, "depth": 2})
        settings = TrainSettings(steps=steps, batch_size=64, validations=1, accelerator="cpu", precision="fp32")
        with tempfile.TemporaryDirectory() as folder:
            began = time.process_time()
            train(policy, demos, settings, folder, quiet=True)
            return 1e3 * (time.process_time() - began)

    few, many = STEPS
    return {
        f"{kind}, training step": lambda kind=kind: (run(kind, many) - run(kind, few)) / (many - few)  # type: ignore[misc]
        for kind in ("mac", "bc")
    }


def milliseconds(call: Callable[[], object]) -> float:
    taken = []
    for _ in range(CALLS):
        began = time.process_time_ns()
        call()
        taken.append(time.process_time_ns() - began)
    return float(np.mean(sorted(taken)[: CALLS // 4])) / 1e6


def serve() -> None:
    """Measure what each line of the input gives the number of; the first line of the output holds the names."""
    torch.set_num_threads(1)
    steps, learned = filter_steps(), trainings()
    for call in (*steps.values(), *learned.values()):
        call()
    measured = [*(partial(milliseconds, call) for call in steps.values()), *learned.values()]
    print(" | ".join([*steps, *learned]), flush=True)
    for line in sys.stdin:
        print(measured[int(line)](), flush=True)


# ---- the comparison ----


def environment(checkout: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(checkout)}


def started(checkout: Path) -> subprocess.Popen[str]:
    words = [sys.executable, str(Path(__file__).resolve()), "serve"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen(words, text=True, cwd=checkout, env=environment(checkout), **pipes)  # type: ignore[call-overload,no-any-return]


def asked(worker: subprocess.Popen[str], number: int) -> float:
    assert worker.stdin is not None and worker.stdout is not None  # noqa: S101, PT018 (the pipes were asked for)
    worker.stdin.write(f"{number}\n")
    worker.stdin.flush()
    return float(worker.stdout.readline())


def start_time(checkout: Path, words: tuple[str, ...]) -> float:
    """CPU milliseconds of a new process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *words], cwd=checkout, env=environment(checkout), check=True, stdout=subprocess.DEVNULL
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def in_turn(names: Sequence[str], measures: Sequence[Sequence[Callable[[], float]]], rounds: int) -> None:
    """Measure the two of each name one after the other, each round in the other order, and show the ratios."""
    found = np.empty((rounds, len(names), 2))
    for number in range(rounds):
        for place in range(len(names)):
            for which in (0, 1) if number % 2 else (1, 0):
                found[number, place, which] = measures[which][place]()
        print(f"round {number + 1} of {rounds}", end="\r", file=sys.stderr)
    for name, pairs in zip(names, found.swapaxes(0, 1), strict=True):
        show(name, pairs)


def show(name: str, pairs: np.ndarray) -> None:
    from mac_policy.common.statistics import mean_over_seeds

    before, after = np.median(pairs, axis=0)
    ratio = mean_over_seeds(list(np.log(pairs[:, 1] / pairs[:, 0])[:, None]))
    low, high = np.exp(ratio.ci95 or [np.nan] * 2)
    print(f"| {name} | {before:.3f} | {after:.3f} | {np.exp(ratio.mean):.3f} ({low:.3f} to {high:.3f}) |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--rounds", type=int, default=150, help="of the filter's steps")
    parser.add_argument("--trainings", type=int, default=15)
    parser.add_argument("--starts", type=int, default=10)
    options = parser.parse_args()
    checkouts = [options.before.resolve(), options.after.resolve()]
    print("| CPU time, ms | before | after | after / before (95% interval) |\n| --- | --- | --- | --- |")
    workers = [started(checkout) for checkout in checkouts]
    names, _ = (str(worker.stdout and worker.stdout.readline()).strip().split(" | ") for worker in workers)
    asks = [[partial(asked, worker, number) for number in range(FILTERS + TRAININGS)] for worker in workers]
    in_turn(names[:FILTERS], [each[:FILTERS] for each in asks], options.rounds)
    in_turn(names[FILTERS:], [each[FILTERS:] for each in asks], options.trainings)
    for worker in workers:
        worker.communicate()
    starts = [[partial(start_time, checkout, words) for words in STARTS.values()] for checkout in checkouts]
    for start in (*starts[0], *starts[1]):  # compiles and caches
        start()
    in_turn(list(STARTS), starts, options.starts)


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else main()
