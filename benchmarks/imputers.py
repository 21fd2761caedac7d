"""Error and speed of the Imputer and of scikit-learn's imputers on tables with missing values.

    python benchmarks/imputers.py

Error: on real tables (energy, yacht, concrete), for each seed a split of the rows and, for each share, values of the
training and the test rows removed at random. Every imputer is fitted on the incomplete training rows and fills in the
incomplete test rows. All imputers get the same splits and the same missing values, so that differences are paired.
NRMSE: the root of the mean squared error of the removed values, each column divided by its standard deviation in the
training rows. Speed: a synthetic table of 10,000 x 20 with 30% missing; the target is at most 120 s to fit and at most
10 s to transform. Measurements that the output folder already holds are not repeated.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

try:
    import sklearn
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401 (enables the next import)
    from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
except ModuleNotFoundError:
    sys.exit("error: this compares with scikit-learn: pip install mac-policy[sklearn]")

from benchmarks.options import existing_folder, proportion, whole
from mac_policy import Imputer
from mac_policy.common.provenance import run_record, versions, write_json
from mac_policy.common.statistics import summary, with_interval
from mac_policy.rows.sets.registry import load_rows
from mac_policy.rows.sets.uci import UCI_SHAPES

Floats = NDArray[np.float64]

IMPUTERS: dict[str, Callable[[int], Any]] = {
    "Imputer": lambda seed: Imputer(random_state=seed),
    "Imputer, MAC": lambda seed: Imputer(factorization="mac", random_state=seed),
    "IterativeImputer": lambda seed: IterativeImputer(max_iter=20, random_state=seed),
    "KNNImputer": lambda seed: KNNImputer(n_neighbors=5),
    "mean": lambda seed: SimpleImputer(),
}
TARGET_SECONDS = {"fit": 120.0, "transform": 10.0}
"""Maximum seconds for the large table."""


def holes(shape: tuple[int, ...], share: float, generator: np.random.Generator) -> NDArray[np.bool_]:
    """The values to remove: each with probability `share`, but at least one value of each column stays."""
    hidden = generator.random(shape) < share
    hidden[generator.integers(shape[0], size=shape[1]), np.arange(shape[1])] = False
    return hidden


def measure(imputer: Any, train: Floats, test: Floats, hidden: NDArray[np.bool_]) -> dict[str, Any]:
    """Fit on `train` and fill in `test` without its `hidden` values: for each row (R,) the sum of squared errors and
    the number of hidden values, and the seconds."""
    began = time.perf_counter()
    imputer.fit(train)
    fitted = time.perf_counter()
    filled = imputer.transform(np.where(hidden, np.nan, test))
    transformed = time.perf_counter()
    squared = np.where(hidden, filled - test, 0.0) ** 2
    return {
        "squared": squared.sum(1).tolist(),
        "hidden": hidden.sum(1).tolist(),
        "fit_seconds": fitted - began,
        "transform_seconds": transformed - fitted,
    }


def compare(name: str, share: float, seeds: Sequence[int], root: Path | None, folder: Path) -> dict[str, Any]:
    """The errors and times of all imputers on a table, over seeds."""
    found: dict[str, list[dict[str, Any]]] = {imputer: [] for imputer in IMPUTERS}
    for seed in seeds:
        rows = load_rows(name, root, split=seed)
        train, test = (np.asarray(part, np.float64) for part in (rows.train[:], rows.test[:]))
        generator = np.random.default_rng([seed, round(100 * share)])
        holed = np.where(holes(train.shape, share, generator), np.nan, train)
        hidden = holes(test.shape, share, generator)
        for imputer, make in IMPUTERS.items():
            kept = folder / "measured" / f"{name}-{share}-{imputer}-s{seed}.json"
            facts = {**facts_of(make(seed)), "sha256": rows.sha256, "note": rows.note}
            found[imputer].append(_kept_or(kept, facts, lambda m=make, s=seed: measure(m(s), holed, test, hidden)))  # noqa: B023
    return {"dataset": rows.record(), **summarised(found)}


def facts_of(imputer: Any) -> dict[str, Any]:
    """Everything besides the table that an imputer's numbers depend on: settings, versions, threads."""
    return {
        "imputer": type(imputer).__name__,
        "settings": {name: repr(value) for name, value in imputer.get_params().items()},
        "versions": {**versions(), "scikit-learn": sklearn.__version__},
        "threads": torch.get_num_threads(),
    }


def _kept_or(path: Path, facts: Mapping[str, Any], measured: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    kept = json.loads(path.read_text()) if path.exists() else {}
    if kept.get("facts") != facts:
        kept = {"facts": facts, **measured()}
        write_json(path, kept)
    return kept


def summarised(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """NRMSE and seconds of each imputer, and the paired differences in mean squared error between the first imputer and
    each other one."""
    errors = {imputer: [_spread(one) for one in of_seeds] for imputer, of_seeds in found.items()}
    first, *others = errors
    return {
        "imputers": {
            imputer: {
                "nrmse": _rooted(summary(errors[imputer], False)),
                **{key: float(np.mean([one[key] for one in of_seeds])) for key in ("fit_seconds", "transform_seconds")},
            }
            for imputer, of_seeds in found.items()
        },
        "paired_squared": {
            f"{first} - {other}": summary(
                [mine - theirs for mine, theirs in zip(errors[first], errors[other], strict=True)], False
            )
            for other in others
        },
    }


def _spread(measured: Mapping[str, Any]) -> Floats:
    """(R,): linearised contributions of the rows, whose mean is the mean squared error of the hidden values and whose
    spread is its spread."""
    squared, hidden = np.array(measured["squared"]), np.array(measured["hidden"], np.float64)
    ratio = squared.sum() / hidden.sum()
    found: Floats = ratio + (squared - ratio * hidden) / hidden.mean()
    return found


def _rooted(found: Mapping[str, Any]) -> dict[str, Any]:
    ends = found["ci95"]
    return {
        "mean": float(np.sqrt(found["mean"])),
        "ci95": None if ends is None else [float(np.sqrt(max(end, 0.0))) for end in ends],
        "interval": found["interval"],
        "per_seed": [float(np.sqrt(value)) for value in found["per_seed"]],
    }


def large_table(rows: int, columns: int, generator: np.random.Generator) -> Floats:
    """Columns that depend on four latent variables, half of them nonlinearly."""
    hidden = generator.normal(size=(rows, 4))
    table = hidden @ generator.normal(size=(4, columns)) + 0.3 * generator.normal(size=(rows, columns))
    table[:, ::2] = np.sin(table[:, ::2]) * 3
    return table


def time_large(rows: int, columns: int, share: float, folder: Path) -> dict[str, Any]:
    """Seconds to fit and to transform one table, and the error, for every imputer."""
    generator = np.random.default_rng(0)
    table = large_table(rows, columns, generator)
    table = (table - table.mean(0)) / table.std(0)
    hidden, facts = holes(table.shape, share, generator), {"rows": rows, "columns": columns, "share": share}
    found = {}
    for imputer, make in IMPUTERS.items():
        path = folder / "measured" / f"large-{imputer}.json"
        one = _kept_or(
            path,
            {**facts, **facts_of(make(0))},
            lambda m=make: measure(m(0), np.where(hidden, np.nan, table), table, hidden),
        )
        found[imputer] = {key: one[key] for key in ("fit_seconds", "transform_seconds")}
        found[imputer]["nrmse"] = float(np.sqrt(np.sum(one["squared"]) / np.sum(one["hidden"])))
    return {**facts, "target_seconds": TARGET_SECONDS, "imputers": found}


def results_table(record: Mapping[str, Any]) -> Table:
    table = Table(
        title="NRMSE of the hidden values, 95% intervals: Student t over splits; seconds to fit + to transform"
    )
    for name in ("table", "missing", *IMPUTERS):
        table.add_column(name, justify="right")
    for result in record["tables"]:
        cells = []
        for found in result["imputers"].values():
            seconds = f"{found['fit_seconds']:.1f} + {found['transform_seconds']:.2f} s"
            cells.append(f"{with_interval(found['nrmse'], '.3f')}\n{seconds}")
        table.add_row(result["dataset"]["name"], f"{result['share']:.0%}", *cells)
    large = record.get("large")
    if large:
        cells = [
            f"{found['nrmse']:.3f}\n{found['fit_seconds']:.1f} + {found['transform_seconds']:.2f} s"
            for found in large["imputers"].values()
        ]
        table.add_row(f"{large['rows']:,} x {large['columns']}", f"{large['share']:.0%}", *cells)
    return table


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="*", choices=UCI_SHAPES, default=["energy", "yacht", "concrete"])
    parser.add_argument("--shares", nargs="+", type=proportion, default=[0.3, 0.5])
    parser.add_argument("--seeds", nargs="+", type=whole(0), default=[0, 1, 2, 3, 4])
    parser.add_argument("--root", type=existing_folder, help="folder with the tables [$MAC_DATA]")
    parser.add_argument("--threads", type=whole(1), default=2)
    parser.add_argument(
        "--large",
        nargs=2,
        type=whole(0),
        default=[10_000, 20],
        help="rows and columns of the large table; 0 0 skips it",
    )
    parser.add_argument("--out", type=Path, default=Path("runs/imputers"))
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    record: dict[str, Any] = run_record(None) | {
        "settings": {key: value for key, value in vars(options).items() if key not in ("out", "root")},
        "imputers": {name: repr(make(0)) for name, make in IMPUTERS.items()},
        "tables": [],
    }
    for name in options.tables:
        for share in options.shares:
            record["tables"].append({"share": share, **compare(name, share, options.seeds, options.root, options.out)})
            write_json(options.out / "results.json", record)
    if all(options.large):
        record["large"] = time_large(*options.large, 0.3, options.out)
    Console(width=None if Console().is_terminal else 200).print(results_table(record))
    print(write_json(options.out / "results.json", record))


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
