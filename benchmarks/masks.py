"""Drawing MAC's training masks: exact sampler against the paper's resampling, in one run.

The paper (appendix B) draws an excess of 100 masks for every one that is needed, weighs them by their cardinality and
resamples without replacement; that procedure is written here from its description. The exact sampler draws from the
closed-form law, or from the exact table for N <= 16.

    python benchmarks/masks.py
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from mac_policy.common.provenance import run_record, write_json
from mac_policy.core import MaskTuned, UniformCardinality

SIZES = ((9, 4096), (250, 180), (3072, 24))
EXCESS = 100


def resampled_masks(n: int, num_variables: int, generator: torch.Generator) -> Tensor:
    """Appendix B: test masks, a uniform prefix of each, then importance resampling by cardinality."""
    drawn = EXCESS * n
    rank = torch.rand((drawn, num_variables), generator=generator).argsort(1)
    size = torch.randint(1, num_variables + 1, (drawn, 1), generator=generator)
    possible = (torch.arange(num_variables).expand(drawn, -1) < size).float()
    length = torch.multinomial(possible, 1, generator=generator)
    test_masks = rank < size
    # The first `length` elements of a test mask: sort its elements and cut after that many.
    elements = torch.where(test_masks, torch.arange(num_variables), num_variables)
    cut = elements.sort(1).values.gather(1, length)
    masks = test_masks & (elements < cut)
    chosen = torch.multinomial(1.0 + masks.sum(1), n, replacement=False, generator=generator)
    return masks[chosen]


def milliseconds(work: Callable[[], object], seconds: float) -> float:
    """Median of single calls made for about `seconds`, after one to warm up."""
    work()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="time spent on each measurement (default 3)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/benchmarks/masks"), help="folder of results.json")
    options = parser.parse_args()
    g = torch.Generator().manual_seed(options.seed)
    record = run_record(options.seed) | {"rows": []}
    print(f"{'N':>5} {'batch':>6} {'resampling ms':>14} {'exact ms':>9} {'ratio':>6} {'edge weights ms':>16}")
    for n, batch in SIZES:
        masks = UniformCardinality(n)
        exact, edge = MaskTuned(masks), MaskTuned(masks, weights="edge")
        row = {
            "n": n,
            "batch": batch,
            "resampling_ms": milliseconds(lambda n=n, batch=batch: resampled_masks(batch, n, g), options.seconds),
            "exact_ms": milliseconds(lambda f=exact, batch=batch: f.training_masks(batch, g).evidence, options.seconds),
            "edge_ms": milliseconds(lambda f=edge, batch=batch: f.training_masks(batch, g).evidence, options.seconds),
        }
        row["ratio"] = row["resampling_ms"] / row["exact_ms"]
        record["rows"].append(row)
        print(
            f"{n:5} {batch:6} {row['resampling_ms']:14.2f} {row['exact_ms']:9.3f} {row['ratio']:6.0f}"
            f" {row['edge_ms']:16.3f}"
        )
    print(write_json(options.out / "results.json", record))


if __name__ == "__main__":
    main()
