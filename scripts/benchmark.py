"""Train arms under one budget and compare their likelihoods. `--help` explains each option."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

import hydra
from _cli import clean_errors
from lightning_fabric import Fabric
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from mac_policy.checks import check_choice
from mac_policy.likelihood.comparison import RESULTS, Comparison
from mac_policy.likelihood.presets import KEYS, chosen, make_comparison
from mac_policy.likelihood.report import results_tables, write_curves
from mac_policy.training.setup import make_fabric

BENCHMARKS = Path(__file__).parents[1] / "configs" / "benchmark"


@hydra.main(config_path="../configs/benchmark", config_name="_benchmark", version_base=None)
@clean_errors
def main(config: DictConfig) -> None:
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    comparison = make(config)
    fabric = make_fabric(comparison.recipe.training)
    with fabric.rank_zero_first():  # the first process may have to fetch the data
        print_once(fabric, str(comparison.load(comparison.seeds[0])))
    record = comparison.run(fabric, resume=config.resume)
    if fabric.is_global_zero:
        report(comparison, record)


def make(config: DictConfig) -> Comparison:
    plain: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    changes = {key: plain[key] for key in KEYS if key in plain}
    values = chosen(read_benchmark(plain["benchmark"]), plain["preset"], changes)
    name = plain["name"] or f"{plain['benchmark']}-{plain['preset']}"
    return make_comparison(name, values, plain["arms"], Path(plain["runs"]) / name)


def read_benchmark(name: str) -> dict[str, Any]:
    """configs/benchmark/<name>.yaml: a base and its presets."""
    names = sorted(path.stem for path in BENCHMARKS.glob("[!_]*.yaml"))
    found: dict[str, Any] = OmegaConf.to_container(
        OmegaConf.load(BENCHMARKS / f"{check_choice('benchmark', name, names)}.yaml")
    )  # type: ignore[assignment]
    return found


def print_once(fabric: Fabric, text: str) -> None:
    if fabric.is_global_zero:
        print(text)


def report(comparison: Comparison, record: dict[str, Any]) -> None:
    scale = 1 / math.log(2) if record["better"] == "lower" else -float(record["dataset"]["variables"])
    curves = write_curves(record, comparison.folder, scale, comparison.folder / "curves.png")
    console = Console(width=None if Console().is_terminal else 200)
    for table in results_tables(record):
        console.print(table)
    print(f"curves: {curves}")
    print(comparison.folder / RESULTS)


if __name__ == "__main__":
    main()
