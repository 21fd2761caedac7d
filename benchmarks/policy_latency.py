"""How long one decision takes: batch of one, every policy side by side, at p50 and p99.

    OMP_NUM_THREADS=1 python benchmarks/policy_latency.py

Untrained weights, which take as long as trained ones. MAC fills 5 of 9 dims; BC has the same trunk. Each
round measures every policy once, in turn, so that a busy machine is busy for all of them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from rich.console import Console
from rich.table import Table

from mac_policy.common.provenance import run_record, write_json
from mac_policy.policies.policy import Policy
from mac_policy.policies.registry import make_policy
from mac_policy.policies.spaces import Spaces

OBSERVATION, ACTION, GIVEN = 30, 9, 4


def policies(width: int, depth: int, paper: bool) -> dict[str, Policy]:
    """The policies to compare, for the kitchen's sizes."""
    both = Spaces.of(
        spaces.Box(-np.inf, np.inf, (OBSERVATION,), np.float32), spaces.Box(-1.0, 1.0, (ACTION,), np.float32)
    )
    trunk = {"width": width, "depth": depth}
    made = {
        "bc": make_policy("bc", both, trunk),
        "mac, mode": make_policy("mac", both, trunk),
        "mac, sample": make_policy("mac", both, trunk | {"decode": "sample"}),
        "mac, best of 16": make_policy("mac", both, trunk | {"decode": "best"}),
        "mac_path, mode": make_policy("mac_path", both, trunk),
        "mac_path, sample": make_policy("mac_path", both, trunk | {"decode": "sample"}),
        "mac_path, best of 16": make_policy("mac_path", both, trunk | {"decode": "best"}),
        "ibc 16384 x 3": make_policy("ibc", both, trunk),
    }
    if paper:
        made["mac_paper 2048x8"] = make_policy("mac_paper", both)
        made["bc 2048x8"] = make_policy("bc", both, {"width": 2048, "depth": 8})
        made["mac 2048x8, sample"] = make_policy("mac", both, {"width": 2048, "depth": 8, "decode": "sample"})
        made["mac_path 2048x8, sample"] = make_policy("mac_path", both, {"width": 2048, "depth": 8, "decode": "sample"})
    return {name: policy.eval() for name, policy in made.items()}


def calls(made: dict[str, Policy]) -> dict[str, Callable[[], Any]]:
    """One decision of each: BC alone, the others with the operator holding some dims."""
    rng = np.random.default_rng(0)
    seen, given = rng.normal(size=OBSERVATION).astype(np.float32), np.zeros(ACTION, np.float32)
    held = np.arange(ACTION) < GIVEN
    generator = torch.Generator().manual_seed(0)

    def decide(policy: Policy) -> Callable[[], Any]:
        if policy.kind == "bc":
            return lambda: policy.act(seen)
        return lambda: policy.act(seen, given, held, generator=generator)

    return {name: decide(policy) for name, policy in made.items()}


def measure(decisions: dict[str, Callable[[], Any]], rounds: int, slow: int) -> dict[str, np.ndarray]:
    """Milliseconds of every call; those called slow take part in one round of `slow`."""
    for call in decisions.values():
        call()
    taken: dict[str, list[float]] = {name: [] for name in decisions}
    for round_ in range(rounds):
        for name, call in decisions.items():
            if name.startswith("ibc") and round_ % slow:
                continue
            for _ in range(1 if name.startswith("ibc") else 3):  # the first of them finds a cold cache
                began = time.perf_counter()
                call()
                last = 1e3 * (time.perf_counter() - began)
            taken[name].append(last)
    return {name: np.array(values) for name, values in taken.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--width", type=int, default=512, help="of the trunk")
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--no-paper", action="store_true", help="leave out the networks of width 2048")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", default="runs/policy_latency")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    made = policies(options.width, options.depth, not options.no_paper)
    taken = measure(calls(made), options.rounds, slow=max(1, options.rounds // 15))
    arms = {
        name: {"calls": len(values)} | {f"p{q}": float(np.percentile(values, q)) for q in (50, 95, 99)}
        for name, values in taken.items()
    }
    record = run_record(0) | {"trunk": [options.width, options.depth], "threads": options.threads, "arms": arms}
    record["ratios"] = ratios(arms)
    show(record)
    print(write_json(Path(options.out) / "results.json", record))


def ratios(arms: dict[str, dict[str, float]]) -> dict[str, float]:
    """What the targets speak of, at p50."""
    pairs = {
        "mac, mode / bc": ("mac, mode", "bc"),
        "mac, sample / bc": ("mac, sample", "bc"),
        "mac_path, mode / bc": ("mac_path, mode", "bc"),
        "mac_path, sample / bc": ("mac_path, sample", "bc"),
        "mac_path, best / mac, best": ("mac_path, best of 16", "mac, best of 16"),
        "mac 2048x8, sample / bc 2048x8": ("mac 2048x8, sample", "bc 2048x8"),
        "mac_path 2048x8, sample / bc 2048x8": ("mac_path 2048x8, sample", "bc 2048x8"),
        "mac_paper 2048x8 / bc 2048x8": ("mac_paper 2048x8", "bc 2048x8"),
        "ibc / mac, mode": ("ibc 16384 x 3", "mac, mode"),
        "ibc / mac, sample": ("ibc 16384 x 3", "mac, sample"),
    }
    return {name: arms[a]["p50"] / arms[b]["p50"] for name, (a, b) in pairs.items() if a in arms and b in arms}


def show(record: dict[str, Any]) -> None:
    width, depth = record["trunk"]
    table = Table(title=f"One decision, ms; trunk {width}x{depth}; 4 of 9 dims given; {record['machine']['cpu']}")
    for column in ("policy", "p50", "p95", "p99"):
        table.add_column(column, justify="left" if column == "policy" else "right")
    for name, row in record["arms"].items():
        table.add_row(name, *(f"{row[q]:.3f}" for q in ("p50", "p95", "p99")))
    console = Console()
    console.print(table)
    for name, ratio in record["ratios"].items():
        console.print(f"{name}: {ratio:.2f}", highlight=False)


if __name__ == "__main__":
    main()
