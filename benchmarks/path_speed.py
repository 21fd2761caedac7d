"""How much faster a path network answers than a set network of its size, and samples with its cache than without.

    python benchmarks/path_speed.py

Untrained weights, which take as long as trained ones, and random letters. Every measurement is made with all networks
in turn, so that a busy machine is busy for all of them; times are CPU seconds of one thread, medians over the repeats.
The likelihoods are those of whole chunks (joint), of random subsets of them (marginal), and of the rest given a random
subset (conditional), by `UniformCardinality`. Samples are those of every second character given the others.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.reread import without_cache
from mac_policy.common.provenance import run_record, write_json
from mac_policy.core import AnyOrderModel, MaskTuned, UniformCardinality
from mac_policy.core.heads import Categorical
from mac_policy.core.networks import PathTransformer, Transformer

LETTERS = 27
TARGET = {"joint": 50, "marginal": 50, "sample": 10}


def models(length: int, width: int, depth: int, heads: int) -> dict[str, AnyOrderModel]:
    """A set transformer and path transformers of the same width and depth."""
    head = Categorical(LETTERS)
    sizes = {"num_variables": length, "num_features": LETTERS, "num_params": LETTERS}
    shape = {"width": width, "depth": depth, "heads": heads}
    networks = {
        "set": Transformer(**sizes, **shape),
        "path, given free": PathTransformer(**sizes, **shape, given="free"),
        "path, given causal": PathTransformer(**sizes, **shape, given="causal"),
    }
    return {name: AnyOrderModel(network, head).eval() for name, network in networks.items()}


def seconds(works: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median CPU seconds of each, called in turn after one call to warm up."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for repeat in range(repeats + 1):
        for name, work in works.items():
            if repeat == 0 and name == "set":  # it takes long, and is warm after its first passes
                continue
            began = time.process_time()
            work()
            if repeat:
                taken[name].append(time.process_time() - began)
    return {name: statistics.median(times) for name, times in taken.items()}


def likelihoods(made: dict[str, AnyOrderModel], length: int, chunks: int, repeats: int) -> dict[str, dict[str, float]]:
    """CPU seconds of each kind of likelihood of `chunks` chunks, for each network."""
    g = torch.Generator().manual_seed(0)
    x = torch.randint(LETTERS, (chunks, length), generator=g)
    subsets = UniformCardinality(length).sample(chunks, g)
    everything, nothing = torch.ones_like(subsets), torch.zeros_like(subsets)
    kinds = {"joint": (everything, nothing), "marginal": (subsets, nothing), "conditional": (~subsets, subsets)}
    factorization = MaskTuned(UniformCardinality(length))

    def work(model: AnyOrderModel, query: torch.Tensor, given: torch.Tensor) -> Callable[[], object]:
        return lambda: model.log_prob(x, query=query, given=given, factorization=factorization)

    return {kind: seconds({n: work(m, *masks) for n, m in made.items()}, repeats) for kind, masks in kinds.items()}


def sampling(made: dict[str, AnyOrderModel], length: int, chunks: int, repeats: int) -> dict[str, float]:
    """CPU seconds of filling in every second character of `chunks` chunks, with and without the cache."""
    given = torch.arange(length) % 2 == 0
    x = torch.randint(LETTERS, (chunks, length), generator=torch.Generator().manual_seed(0))
    factorization = MaskTuned(UniformCardinality(length))

    def work(model: AnyOrderModel) -> Callable[[], object]:
        return lambda: model.sample(
            x, given=given, factorization=factorization, generator=torch.Generator().manual_seed(0)
        )

    works = {
        f"{name}, {cache}": work(sampler)
        for name, model in made.items()
        if name != "set"
        for cache, sampler in (("cache", model), ("no cache", without_cache(model).eval()))
    }
    return seconds(works, repeats)


def ratios(record: dict[str, Any]) -> dict[str, float]:
    """How many times faster: path against set, and with the cache against without."""
    found = {}
    for kind, times in record["likelihoods"].items():
        for name, time_taken in times.items():
            if name != "set":
                found[f"{kind}, {name}"] = times["set"] / time_taken
    for chunks, times in record["sampling"].items():
        for name, time_taken in times.items():
            if name.endswith(", cache"):
                found[f"sample {chunks} chunks, {name}"] = times[name.replace(", cache", ", no cache")] / time_taken
    return found


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, default=250, help="characters of a chunk (250)")
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--chunks", type=int, default=2, help="whose likelihoods are taken (2)")
    parser.add_argument("--samples", type=int, nargs="+", default=[1, 8], help="chunks sampled at a time (1 8)")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/benchmarks/path_speed"), help="folder of results.json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    made = models(options.length, options.width, options.depth, options.heads)
    record: dict[str, Any] = run_record(0) | {
        "settings": {k: v for k, v in vars(options).items() if k != "out"},
        "parameters": {name: sum(p.numel() for p in model.parameters()) for name, model in made.items()},
        "likelihoods": likelihoods(made, options.length, options.chunks, options.repeats),
        "sampling": {str(n): sampling(made, options.length, n, options.repeats) for n in options.samples},
    }
    record["ratios"] = ratios(record)
    for name, count in record["parameters"].items():
        print(f"{name}: {count:,} parameters")
    for name, ratio in record["ratios"].items():
        print(f"{name:45} {ratio:8.1f} x (target: {TARGET.get(name.split(',')[0].split()[0], '-')})")
    print(write_json(options.out / "results.json", record))


if __name__ == "__main__":
    main()
