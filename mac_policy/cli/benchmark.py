"""Train arms under one budget and compare their likelihoods."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from omegaconf import OmegaConf
from rich.console import Console

from mac_policy.cli.command import Command
from mac_policy.cli.composing import configs
from mac_policy.common.checks import check_choice, check_mapping
from mac_policy.common.settings import FolderName, Names, Settings, from_mapping
from mac_policy.rows.likelihoods.comparison import RESULTS, Comparison
from mac_policy.rows.likelihoods.presets import KEYS, MAPPINGS, chosen, make_comparison, merged
from mac_policy.rows.likelihoods.report import paper_table, results_tables, write_curves
from mac_policy.rows.likelihoods.unit import unit_of
from mac_policy.rows.methods import FIGURE_3
from mac_policy.training.fabric import Fabric, make_fabric


@dataclass(frozen=True)
class Options(Settings):
    """See configs/benchmark/_benchmark.yaml."""

    benchmark: str
    preset: str
    sets: Names | None
    arms: Names | None
    resume: bool
    runs: Path
    name: FolderName | None
    changes: Mapping[str, Any]
    """What differs from the benchmark's preset."""


def main(config: dict[str, Any]) -> None:
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    options = changed_options(config)
    benchmark = read_benchmark(options.benchmark)
    comparisons = make(options, benchmark)
    fabric = make_fabric(comparisons[0].budget.training)
    records = [run(comparison, fabric, options.resume) for comparison in comparisons]
    if fabric.is_global_zero:
        report(comparisons, records)
        if "table" in benchmark:
            report_beside_paper(records, options, **benchmark["table"])
        for comparison in comparisons:
            print(comparison.folder / RESULTS)


def changed_options(config: Mapping[str, Any]) -> Options:
    changes = {key: value for key, value in config.items() if key in KEYS}
    rest = {key: value for key, value in config.items() if key not in KEYS}
    return from_mapping(Options, rest | {"changes": changes}, "options")


def make(options: Options, benchmark: Mapping[str, Any]) -> list[Comparison]:
    """The comparison, or one for each of the data sets of a benchmark that has several."""
    known = benchmark.get("sets")
    if options.sets and not known:
        raise ValueError(f"the benchmark {options.benchmark} has one data set: it takes no sets")
    found = []
    for each in options.sets or known or [None]:
        changes = dict(options.changes)
        if each is not None:
            data = check_mapping("data", {} if changes.get("data") is None else changes["data"])
            changes["data"] = data | {"name": check_choice("data set", each, known or ())}
        values = chosen(benchmark, options.preset, changes)
        parts = [options.name or options.benchmark, each, options.preset if each or not options.name else None]
        name = "-".join(str(part) for part in parts if part)
        arms = options.arms or benchmark.get("arms") or FIGURE_3
        found.append(make_comparison(name, values, arms, options.runs / name))
    return found


def read_benchmark(name: str, folder: Path | None = None, what: str = "benchmark") -> dict[str, Any]:
    """A benchmark of configs/benchmark, merged over the files that it extends; what: the option that names it."""
    folder = folder or configs() / "benchmark"
    names = sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("[!_]*.yaml"))
    return extended(folder, check_choice(what, name, names))


def extended(folder: Path, name: str) -> dict[str, Any]:
    found = cast("dict[str, Any]", OmegaConf.to_container(OmegaConf.load(folder / f"{name}.yaml")))
    bases = [extended(folder, base) for base in found.pop("extends", [])]
    return functools.reduce(merged, [*bases, found])


def run(comparison: Comparison, fabric: Fabric, resume: bool) -> dict[str, Any]:
    with fabric.rank_zero_first():  # the first process may have to fetch the data
        print_once(fabric, str(comparison.load(comparison.seeds[0])))
    return comparison.run(fabric, resume=resume)


def print_once(fabric: Fabric, text: str) -> None:
    if fabric.is_global_zero:
        print(text)


def report(comparisons: list[Comparison], records: list[dict[str, Any]]) -> None:
    for comparison, record in zip(comparisons, records, strict=True):
        factor = unit_of(record["better"] == "lower", record["dataset"]["variables"]).factor
        curves = write_curves(record, comparison.folder, factor, comparison.folder / "curves.png")
        for each in results_tables(record):
            wide_console().print(each)
        print(f"curves: {curves}")


def wide_console() -> Console:
    """The terminal; 200 columns where there is none."""
    return Console(width=None if Console().is_terminal else 200)


def report_beside_paper(
    records: list[dict[str, Any]], options: Options, *, caveat: str | None = None, **table: Any
) -> None:
    """Print one metric beside published numbers, and what a reader must know before comparing the two."""
    wide_console().print(paper_table(records, **table))
    for each in (caveat, caveat_of_preset(options)):
        if each:
            print(f"note: {each}")


def caveat_of_preset(options: Options) -> str | None:
    if options.preset == "smoke":
        return "preset=smoke trains for a few steps to try the command: its numbers say nothing about the arms"
    if options.preset != "paper":
        return f"preset={options.preset} trains for less than the paper: compare arms with one another, not with it"
    changed = [key for key, value in options.changes.items() if value and key not in ("data", "seeds")]
    return f"settings other than those of preset=paper: {', '.join(changed)}" if changed else None


COMMAND = Command(main, "benchmark/_benchmark", open=MAPPINGS)
