"""Train arms under one budget and compare their likelihoods. `--help` explains each option."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

import hydra
from _cli import clean_errors
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from mac_policy.common.checks import check_choice, check_list, check_mapping
from mac_policy.rows.likelihoods.comparison import RESULTS, Comparison
from mac_policy.rows.likelihoods.presets import KEYS, chosen, make_comparison
from mac_policy.rows.likelihoods.report import paper_table, results_tables, write_curves
from mac_policy.rows.methods import FIGURE_3
from mac_policy.training.fabric import Fabric, make_fabric

BENCHMARKS = Path(__file__).parents[1] / "configs" / "benchmark"


@hydra.main(config_path="../configs/benchmark", config_name="_benchmark", version_base=None)
@clean_errors
def main(config: DictConfig) -> None:
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    plain: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    benchmark = read_benchmark(plain["benchmark"])
    comparisons = make(plain, benchmark)
    fabric = make_fabric(comparisons[0].budget.training)
    records = [run(comparison, fabric, plain["resume"]) for comparison in comparisons]
    if fabric.is_global_zero:
        report(comparisons, records, benchmark.get("table"))


def make(plain: dict[str, Any], benchmark: dict[str, Any]) -> list[Comparison]:
    """The comparison, or one for each of the data sets of a benchmark that has several."""
    changes = {key: plain[key] for key in KEYS if key in plain}
    arms = plain["arms"] or benchmark.get("arms") or FIGURE_3
    known = benchmark.get("sets")
    if not known:
        if plain["sets"]:
            raise ValueError(f"the benchmark {plain['benchmark']} has one data set: it takes no sets")
        values = chosen(benchmark, plain["preset"], changes)
        name = plain["name"] or f"{plain['benchmark']}-{plain['preset']}"
        return [make_comparison(name, values, arms, Path(plain["runs"]) / name)]
    found = []
    for each in check_list("sets", plain["sets"] or known):
        data = {**check_mapping("data", changes["data"]), "name": check_choice("data set", each, known)}
        values = chosen(benchmark, plain["preset"], {**changes, "data": data})
        name = f"{plain['name'] or plain['benchmark']}-{each}-{plain['preset']}"
        found.append(make_comparison(name, values, arms, Path(plain["runs"]) / name))
    return found


def read_benchmark(name: str) -> dict[str, Any]:
    """configs/benchmark/<name>.yaml: a base and its presets."""
    names = sorted(path.relative_to(BENCHMARKS).with_suffix("").as_posix() for path in BENCHMARKS.rglob("[!_]*.yaml"))
    found: dict[str, Any] = OmegaConf.to_container(
        OmegaConf.load(BENCHMARKS / f"{check_choice('benchmark', name, names)}.yaml")
    )  # type: ignore[assignment]
    return found


def run(comparison: Comparison, fabric: Fabric, resume: bool) -> dict[str, Any]:
    with fabric.rank_zero_first():  # the first process may have to fetch the data
        print_once(fabric, str(comparison.load(comparison.seeds[0])))
    return comparison.run(fabric, resume=resume)


def print_once(fabric: Fabric, text: str) -> None:
    if fabric.is_global_zero:
        print(text)


def report(comparisons: list[Comparison], records: list[dict[str, Any]], table: dict[str, Any] | None) -> None:
    console = Console(width=None if Console().is_terminal else 200)
    for comparison, record in zip(comparisons, records, strict=True):
        scale = 1 / math.log(2) if record["better"] == "lower" else -float(record["dataset"]["variables"])
        curves = write_curves(record, comparison.folder, scale, comparison.folder / "curves.png")
        for each in results_tables(record):
            console.print(each)
        print(f"curves: {curves}")
    if table:
        console.print(paper_table(records, **table))
    for comparison in comparisons:
        print(comparison.folder / RESULTS)


if __name__ == "__main__":
    main()
