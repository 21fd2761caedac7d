"""How much faster a marginal likelihood is than a plain loop over the variables, on the same network.

    python benchmarks/likelihood_speed.py

64 chunks of 250 characters, a random subset of each is asked for. The plain loop asks the network about all chunks
once for each of the 250 steps; log_prob asks only about the steps that a chunk still has, and steps of different chunks
share passes. Both are measured in turn, in CPU seconds of `--threads` threads; the limit is 1.5 times. That they agree
is checked in double precision, on fewer chunks.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import torch
from torch import Tensor

from mac_policy.common.provenance import run_record, write_json
from mac_policy.core import AnyOrderModel, MaskTuned, UniformCardinality
from mac_policy.core.heads import Categorical
from mac_policy.core.networks import Transformer

LETTERS = 27
TARGET = 1.5


def plain_loop(model: AnyOrderModel, x: Tensor, query: Tensor, ranks: Tensor) -> Tensor:
    """One pass of all rows for each variable. (B,)"""
    total = torch.zeros(len(x), dtype=next(model.parameters()).dtype)
    for step in range(x.shape[1]):
        terms = model.conditionals(x, evidence=ranks < step).log_prob(x)
        total += torch.where(query & (ranks == step), terms, 0.0).sum(1)
    return total


def make(length: int, width: int, depth: int) -> AnyOrderModel:
    head = Categorical(LETTERS)
    network = Transformer(
        num_variables=length, num_features=LETTERS, num_params=LETTERS, width=width, depth=depth, heads=4
    )
    torch.nn.init.normal_(network.output.weight, std=0.2)  # far from uniform, so that a difference would show
    return AnyOrderModel(network, head).eval()


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=64)
    parser.add_argument("--length", type=int, default=250, help="characters of a chunk (250)")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--depth", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/benchmarks/likelihood_speed"))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    model, generator = make(options.length, options.width, options.depth), torch.Generator().manual_seed(0)
    x = torch.randint(LETTERS, (options.chunks, options.length), generator=generator)
    query = UniformCardinality(options.length).sample(options.chunks, generator)
    factorization = MaskTuned(UniformCardinality(options.length))
    ranks = factorization.ranks(query=query, given=query & False)
    taken: dict[str, list[float]] = {"loop": [], "log_prob": []}
    values: dict[str, Tensor] = {}
    for _ in range(options.repeats):
        for name in taken:
            began = time.process_time()
            if name == "loop":
                values[name] = plain_loop(model, x, query, ranks)
            else:
                values[name] = model.log_prob(x, query=query, factorization=factorization)
            taken[name].append(time.process_time() - began)
    difference = float(((values["loop"] - values["log_prob"]) / values["loop"]).abs().max())
    few = slice(0, 4)
    exact = model.double().log_prob(x[few], query=query[few], factorization=factorization)
    gap = float((exact - plain_loop(model, x[few], query[few], ranks[few])).abs().max())
    seconds = {name: statistics.median(times) for name, times in taken.items()}
    ratio = seconds["loop"] / seconds["log_prob"]
    record = run_record(0) | {
        "settings": {k: v for k, v in vars(options).items() if k != "out"},
        "cpu_seconds": taken,
        "ratio": ratio,
        "target": TARGET,
        "largest_relative_difference_float32": difference,
        "largest_difference_float64": gap,
    }
    print(f"loop {seconds['loop']:.1f} s, log_prob {seconds['log_prob']:.1f} s: {ratio:.2f} times (target: {TARGET})")
    print(f"largest difference: {difference:.1e} of the value in float32, {gap:.1e} nats in float64 (target: 1e-5)")
    print(write_json(options.out / "results.json", record))


if __name__ == "__main__":
    main()
