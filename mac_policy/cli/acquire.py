"""Which variable to look at next: errors of a target against how many are known."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console

from mac_policy.cli import benchmark
from mac_policy.cli.command import Command, options_of
from mac_policy.common.checks import check_choice, check_some
from mac_policy.common.settings import Names, from_mapping
from mac_policy.rows.acquisition.curves import AcquisitionSettings
from mac_policy.rows.acquisition.experiment import Experiment, check_answering
from mac_policy.rows.acquisition.report import MEANING, paired_table, results_table, write_plot
from mac_policy.rows.acquisition.summary import METRICS
from mac_policy.rows.likelihoods.comparison import RESULTS
from mac_policy.rows.sets.uci import UCI_SHAPES
from mac_policy.training.fabric import make_fabric


@dataclass(frozen=True)
class Options(benchmark.Options):
    """See configs/acquire/_acquire.yaml."""

    arms: Names
    recipe: str
    target: Annotated[tuple[int, ...], check_some]
    out: Path


def main(config: dict[str, Any]) -> None:
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    experiment = experiment_of(config)
    print(experiment.comparison.load(experiment.comparison.seeds[0]))
    record = experiment.run(make_fabric(experiment.comparison.budget.training), resume=config["resume"])
    console = Console(width=None if Console().is_terminal else 100)
    for metric in METRICS:
        console.print(results_table(record, metric))
    if record["paired"]:
        console.print(paired_table(record))
    print(MEANING)
    print(f"curves: {write_plot(record, experiment.folder / 'curves.png')}")
    print(experiment.folder / RESULTS)


def experiment_of(config: Mapping[str, Any]) -> Experiment:
    changes = {key: config[key] for key in ("seeds", "data", "training")}
    options = options_of(Options, {**config, "sets": None, "name": None, "changes": changes})
    table = check_choice("benchmark", options.benchmark, UCI_SHAPES)
    preset = config["presets"][check_choice("preset", options.preset, config["presets"])]
    names = [field.name for field in fields(AcquisitionSettings)]
    changed = {name: config[name] for name in names if config.get(name) is not None}
    recipe = benchmark.read_benchmark(options.recipe, what="recipe")
    check_table(options.recipe, recipe, table)
    check_answering(options.arms)
    sets = (table,) if "sets" in recipe else None
    return Experiment(
        benchmark.make(replace(options, benchmark=options.recipe, sets=sets), recipe)[0],
        from_mapping(AcquisitionSettings, preset | changed, "settings of acquisition"),
        options.out / f"{table}-{options.preset}",
        options.target,
    )


def check_table(name: str, recipe: dict[str, Any], table: str) -> None:
    """ValueError where the recipe is not one for this table."""
    known = recipe.get("sets") or [recipe["base"]["data"]["name"]]
    if table not in known:
        raise ValueError(f"recipe {name!r} trains on {', '.join(known)}, not on {table!r}; recipe=sfarm/tables has it")


COMMAND = Command(main, "acquire/_acquire", open=("data", "training"))
