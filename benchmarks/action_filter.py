"""What the action filter adds to the policy's own fill-in time.

    OMP_NUM_THREADS=1 python benchmarks/action_filter.py

Untrained weights, which take as long as trained ones; 30 observations, 9 action dims of which 4 are commanded. Each
round asks the bare policy (`Policy.step`), `Filler` and the step of `ActionFilter` around an environment that does
nothing, one after the other, so that a busy machine is busy for all of them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from rich.console import Console
from rich.table import Table

from mac_policy.common.provenance import run_record, write_json
from mac_policy.filter.action_filter import ActionFilter
from mac_policy.filter.filler import Filler
from mac_policy.policies.policy import Policy
from mac_policy.policies.registry import make_policy
from mac_policy.policies.spaces import Spaces

OBSERVATION, ACTION, GIVEN = 30, 9, 4
SPACES = Spaces.of(
    spaces.Box(-np.inf, np.inf, (OBSERVATION,), np.float32), spaces.Box(-1.0, 1.0, (ACTION,), np.float32)
)


class Still(gymnasium.Env[Any, Any]):
    """An environment in which nothing happens, at once."""

    observation_space, action_space = SPACES[:2]

    def __init__(self) -> None:
        self.observation = np.random.default_rng(0).normal(size=OBSERVATION).astype(np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.observation, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.observation, 0.0, False, False, {}


def calls(policy: Policy, batch: int) -> dict[str, Callable[[], Any]]:
    """The same decision, made barely and with everything around it."""
    seen = np.random.default_rng(0).normal(size=(batch, OBSERVATION)).astype(np.float32)
    values, mask = np.zeros((batch, ACTION), np.float32), np.tile(np.arange(ACTION) < GIVEN, (batch, 1))
    filler, generator = Filler(policy, batch), torch.Generator().manual_seed(0)
    state = policy.initial_state(batch)

    def ask() -> None:
        nonlocal state
        _, state = policy.step(seen, state, values, mask, generator=generator)

    found: dict[str, Callable[[], Any]] = {
        "policy": ask,
        "filler": lambda: filler(seen, values, mask),
    }
    if batch > 1:
        return found
    for form, dims, action in (
        ("fixed dims", GIVEN, values[0, :GIVEN]),
        ("mask each step", None, {"action": values[0], "mask": mask[0]}),
    ):
        env = ActionFilter(Still(), policy, dims)
        env.reset(seed=0)
        found[f"filter, {form}"] = lambda env=env, action=action: env.step(action)  # type: ignore[misc]
    return found


def measure(decisions: dict[str, Callable[[], Any]], rounds: int) -> dict[str, np.ndarray]:
    """Milliseconds of each call in each round."""
    taken = {name: np.empty(rounds) for name in decisions}
    for round_ in range(-20, rounds):  # the first ones warm up
        for name, call in decisions.items():
            began = time.perf_counter()
            call()
            if round_ >= 0:
                taken[name][round_] = 1e3 * (time.perf_counter() - began)
    return taken


def overheads(taken: dict[str, np.ndarray]) -> dict[str, dict[str, float]]:
    """For each call its p50, and the share it adds to the policy's own; the same at p10, for calls that nothing
    else on the machine has disturbed."""
    found: dict[str, dict[str, float]] = {name: {} for name in taken}
    for q in (10, 50):
        alone = float(np.percentile(taken["policy"], q))
        for name, times in taken.items():
            value = float(np.percentile(times, q))
            found[name] |= {f"p{q}_ms": value, f"added_p{q}": value / alone - 1}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", default="runs/benchmarks/action_filter")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    arms = {
        f"{kind} x{batch}": overheads(measure(calls(make_policy(kind, SPACES).eval(), batch), options.rounds))
        for kind in ("mac", "bc")
        for batch in (1, 8)
    }
    record = run_record(0) | {"threads": options.threads, "rounds": options.rounds, "arms": arms}
    show(record)
    print(write_json(Path(options.out) / "results.json", record))


def show(record: dict[str, Any]) -> None:
    table = Table(title=f"Filling in 5 of 9 dims, default sizes; {record['machine']['cpu']}")
    for column in ("policy x environments", "call", "p50, ms", "added", "p10, ms", "added "):
        table.add_column(column, justify="left" if column in ("policy x environments", "call") else "right")
    for arm, rows in record["arms"].items():
        for name, row in rows.items():
            added = ["" if name == "policy" else f"{row[f'added_p{q}']:+.1%}" for q in (50, 10)]
            table.add_row(arm, name, f"{row['p50_ms']:.3f}", added[0], f"{row['p10_ms']:.3f}", added[1])
    Console().print(table)


if __name__ == "__main__":
    main()
