"""Which variable to look at next: errors of a target against how many are known. `--help` explains each option."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import Any

import hydra
from _cli import clean_errors
from benchmark import make, read_benchmark
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from mac_policy.common.checks import check_choice, check_list
from mac_policy.common.settings import from_mapping
from mac_policy.rows.acquisition.experiment import RESULTS, Experiment, check_answering
from mac_policy.rows.acquisition.report import results_table, write_plot
from mac_policy.rows.acquisition.settings import AcquisitionSettings
from mac_policy.rows.sets.uci import UCI_SHAPES
from mac_policy.training.fabric import make_fabric


@hydra.main(config_path="../configs/acquire", config_name="_acquire", version_base=None)
@clean_errors
def main(config: DictConfig) -> None:
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    experiment = experiment_of(config)
    print(experiment.comparison.load(experiment.comparison.seeds[0]))
    record = experiment.run(make_fabric(experiment.comparison.budget.training), resume=config.resume)
    Console(width=None if Console().is_terminal else 220).print(results_table(record))
    print(f"curves: {write_plot(record, experiment.folder / 'curves.png')}")
    print(experiment.folder / RESULTS)


def experiment_of(config: DictConfig) -> Experiment:
    plain: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    table = check_choice("benchmark", plain["benchmark"], UCI_SHAPES)
    names = [field.name for field in dataclasses.fields(AcquisitionSettings)]
    preset = plain["presets"][check_choice("preset", plain["preset"], plain["presets"])]
    settings = preset | {name: plain[name] for name in names if plain.get(name) is not None}
    if "orders" in settings:
        check_list("orders", settings["orders"])
    recipe = read_benchmark(plain["recipe"])
    check_table(plain["recipe"], recipe, table)
    check_answering(check_list("arms", plain["arms"]))
    changes = {key: plain[key] for key in ("arms", "preset", "seeds", "runs", "data", "training")}
    asked = {"benchmark": plain["recipe"], "sets": [table] if "sets" in recipe else None, "name": None, **changes}
    return Experiment(
        make(asked, recipe)[0],
        from_mapping(AcquisitionSettings, settings, "settings of acquisition"),
        Path(plain["out"]) / f"{table}-{plain['preset']}",
        check_list("target", plain["target"]),
    )


def check_table(name: str, recipe: dict[str, Any], table: str) -> None:
    """ValueError where the recipe is not one for this table."""
    known = recipe.get("sets") or [recipe["base"]["data"]["name"]]
    if table not in known:
        raise ValueError(f"recipe {name!r} trains on {', '.join(known)}, not on {table!r}; recipe=sfarm/tables has it")


if __name__ == "__main__":
    main()
