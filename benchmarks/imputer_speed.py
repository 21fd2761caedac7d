"""Seconds of the processor that the Imputer takes for large tables, beside scikit-learn's IterativeImputer.

    python benchmarks/imputer_speed.py

Each table is generated from latent numbers: 2,000 x 200 linear in 10 of them, 100,000 x 12 with half of the columns a
sine of 4 of them; 30% of the values are missing at random. NRMSE is that of the missing values. Also timed are the
likelihoods of 200 rows and 20 samples of them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

try:
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401 (enables the next import)
    from sklearn.impute import IterativeImputer
    from threadpoolctl import threadpool_limits
except ModuleNotFoundError:
    sys.exit("error: this compares with scikit-learn: pip install mac-policy[sklearn]")

from benchmarks.options import run, whole
from mac_policy import Imputer
from mac_policy.common.provenance import run_record, write_json

Floats = NDArray[np.float64]
SHARE = 0.3
ROWS, SAMPLES = 200, 20


def wide(generator: np.random.Generator) -> Floats:
    latent = generator.normal(size=(2000, 10))
    return latent @ generator.normal(size=(10, 200)) + generator.normal(size=(2000, 200))


def long(generator: np.random.Generator) -> Floats:
    latent = generator.normal(size=(100_000, 4))
    table = latent @ generator.normal(size=(4, 12)) + 0.3 * generator.normal(size=(100_000, 12))
    table[:, ::2] = np.sin(table[:, ::2]) * 3
    return table


TABLES: dict[str, Callable[[np.random.Generator], Floats]] = {"2000x200": wide, "100000x12": long}


def seconds_of(imputer: Any, table: Floats, hidden: NDArray[np.bool_]) -> dict[str, float]:
    """Seconds of each use, and the error."""
    holed = np.where(hidden, np.nan, table)
    record, begun = {}, time.process_time()

    def lap(name: str) -> None:
        nonlocal begun
        record[name] = time.process_time() - begun
        begun = time.process_time()

    imputer.fit(holed)
    lap("fit")
    found = imputer.transform(holed)
    lap("transform")
    if isinstance(imputer, Imputer):
        imputer.score_samples(holed[:ROWS])
        lap("score_samples")
        imputer.sample(holed[:ROWS], SAMPLES)
        lap("sample")
        record["steps"] = float(imputer.n_steps_)
    record["nrmse"] = float(np.sqrt(np.mean((((found - table) / table.std(0))[hidden]) ** 2)))
    return record


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--threads", type=whole(1), default=1)
    parser.add_argument("--steps", type=whole(1), default=Imputer().steps, help="most steps of the Imputer's training")
    parser.add_argument("--out", type=Path, default=Path("runs/imputer_speed"))
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    threadpool_limits(options.threads)  # of NumPy and scikit-learn, in both alike
    imputers = {
        "Imputer": lambda: Imputer(steps=options.steps, random_state=0),
        "IterativeImputer": lambda: IterativeImputer(n_nearest_features=40, random_state=0),
    }
    record: dict[str, Any] = run_record(None) | {"threads": options.threads, "tables": {}}
    for name in options.tables:
        generator = np.random.default_rng(0)
        table = TABLES[name](generator)
        hidden = generator.random(table.shape) < SHARE
        record["tables"][name] = {}
        for imputer, make in imputers.items():
            found = record["tables"][name][imputer] = seconds_of(make(), table, hidden)
            print(f"{name} {imputer}: " + ", ".join(f"{key} {value:.3g}" for key, value in found.items()), flush=True)
            write_json(options.out / "results.json", record)


if __name__ == "__main__":
    run(main)
