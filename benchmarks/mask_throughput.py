"""Training throughput with MAC's masks beside plain masked-token training, on the same network.

    python benchmarks/mask_throughput.py

Plain: every row hides a random share of its variables, and the mean negative log-likelihood of what is hidden is
trained, as in masked language modelling. MAC: an arm of a benchmark, as its training loop takes a step. Steps of both
are taken in turn, on made-up rows of the benchmark's shape; medians of CPU seconds. MAC may cost 3% more at most.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mac_policy.cli.benchmark import read_benchmark
from mac_policy.common.provenance import run_record, write_json
from mac_policy.rows.likelihoods.presets import chosen
from mac_policy.rows.model import RowModel
from mac_policy.rows.spec import ModelSpec, build
from mac_policy.training.settings import has_bf16

ROWS: dict[str, tuple[tuple[int, ...], int]] = {"text8": ((0,), 27), "mnist": ((1, 28, 28), 256)}
LIMIT = 0.03


def plain_loss(model: RowModel, x: Tensor, generator: torch.Generator) -> Tensor:
    """The mean negative log-likelihood of a random share of each row, given the rest."""
    seen = torch.rand(x.shape, generator=generator) < torch.rand((len(x), 1), generator=generator)
    head = model.model.head
    params = model.model.network(head.features(x * seen), seen)
    return head.loss(params[~seen], x[~seen]).mean()


def steps(
    model: RowModel, x: Tensor, loss: Callable[[torch.Generator], Tensor], bf16: bool
) -> Callable[[torch.Generator], None]:
    """One step of an optimiser of its own."""
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def step(generator: torch.Generator) -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            value = loss(generator)
        value.backward()
        optimizer.step()

    return step


def measure(name: str, arm: str, count: int) -> dict[str, Any]:
    """Median CPU milliseconds of a step of each, taken in turn."""
    values = chosen(read_benchmark(name), "cpu")
    shape, levels = ROWS[name]
    shape = shape if shape[0] else (values["data"]["chunk"],)
    spec = ModelSpec(arm, shape, levels, values["network"], values["head"], values["order"])
    batch, bf16 = values["training"]["batch_size"], has_bf16("cpu")
    models = [build(spec, 0) for _ in range(2)]
    x = torch.randint(levels, (batch, spec.num_variables), generator=torch.Generator().manual_seed(0)).byte()
    works = {
        "plain": steps(models[0], x, lambda g: plain_loss(models[0], x, g), bf16),
        "mac": steps(models[1], x, lambda g: models[1](x, models[1].draw(batch, g)), bf16),
    }
    taken: dict[str, list[float]] = {key: [] for key in works}
    for step in range(count + 2):
        for key in works if step % 2 else reversed(works):
            began = time.process_time()
            works[key](torch.Generator().manual_seed(step))
            if step >= 2:
                taken[key].append(time.process_time() - began)
    medians = {key: 1000 * statistics.median(times) for key, times in taken.items()}
    per_second = {key: batch * spec.num_variables / (value / 1000) for key, value in medians.items()}
    return {
        "benchmark": name,
        "arm": arm,
        "milliseconds": medians,
        "variables_per_second": per_second,
        "extra": medians["mac"] / medians["plain"] - 1,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benchmarks", nargs="+", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--arms", nargs="+", default=["mac", "mac-edge"])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/benchmarks/mask_throughput"))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = [measure(name, arm, options.steps) for name in options.benchmarks for arm in options.arms]
    for row in rows:
        times, rates = row["milliseconds"], row["variables_per_second"]
        print(
            f"{row['benchmark']:6} {row['arm']:9} plain {times['plain']:7.1f} ms, {rates['plain']:9,.0f}/s; "
            f"masks {times['mac']:7.1f} ms, {rates['mac']:9,.0f}/s: {row['extra']:+.1%} (at most {LIMIT:+.0%})"
        )
    settings = {key: value for key, value in vars(options).items() if key != "out"}
    print(write_json(options.out / "results.json", run_record(0) | {"settings": settings, "rows": rows}))


if __name__ == "__main__":
    main()
