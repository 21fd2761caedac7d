"""The time to compute the reward of every variable of a table's row.

    python benchmarks/acquisition.py

One row of 9 columns without evidence, the largest number of candidates, with 256 samples each. Wall-clock time on
`--threads` threads, for arms with the networks and heads of configs/benchmark/energy.yaml; the target is 50 ms.
The CPU time is reported for machines under load.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.options import whole
from mac_policy.common.provenance import run_record, write_json
from mac_policy.rows.acquisition.information_gain import information_gain
from mac_policy.rows.spec import ModelSpec, build

COLUMNS = 9
TARGET_MS = 50.0
MLP = {"kind": "mlp", "residual": True, "width": 128, "depth": 4}
MODELS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "mac, Gaussian, 3 x 32": ("mac", {"kind": "mlp", "width": 32, "depth": 3}, {"kind": "gaussian"}),
    "mac, mixture of 10, residual 4 x 128": ("mac", MLP, {"kind": "mixture", "num_components": 10}),
    "ardm, mixture of 10, residual 4 x 128": ("ardm", MLP, {"kind": "mixture", "num_components": 10}),
}


def measure(spec: ModelSpec, num_samples: int, repeats: int) -> tuple[list[float], float]:
    """Milliseconds of each repetition, after three to warm up; and the mean milliseconds of the processors."""
    model, generator = build(spec).eval(), torch.Generator().manual_seed(0)
    x, target = torch.zeros(1, COLUMNS), torch.arange(COLUMNS) == COLUMNS - 1
    taken, processors = [], 0.0
    for repeat in range(repeats + 3):
        if repeat == 3:
            processors = time.process_time()
        began = time.perf_counter()
        information_gain(model, x, given=target & False, target=target, num_samples=num_samples, generator=generator)
        taken.append(1000 * (time.perf_counter() - began))
    return taken[3:], 1000 * (time.process_time() - processors) / repeats


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=whole(1), default=256)
    parser.add_argument("--repeats", type=whole(1), default=50)
    parser.add_argument("--threads", type=whole(1), default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/acquisition-speed"))
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    models = {}
    for name, (arm, network, head) in MODELS.items():
        taken, processors = measure(ModelSpec(arm, (COLUMNS,), None, network, head), options.samples, options.repeats)
        p50, p95 = np.percentile(taken, [50, 95])
        models[name] = {"latency_ms": {"p50": p50, "p95": p95}, "cpu_ms": processors}
        print(f"{name}: {p50:.1f} ms (p95 {p95:.1f}; CPU time {processors:.1f}; target: {TARGET_MS:.0f} ms)")
    settings = {key: value for key, value in vars(options).items() if key != "out"}
    record = run_record(0) | {"settings": settings, "target_ms": TARGET_MS, "models": models}
    print(write_json(options.out / "results.json", record))


if __name__ == "__main__":
    main()
