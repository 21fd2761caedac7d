"""Draw images in fewer network passes and measure them (SFARM, Fig. 7 and 8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console
from rich.table import Table

from mac_policy.cli.command import Command, options_of
from mac_policy.common.checks import check_choice
from mac_policy.common.provenance import run_record, write_json
from mac_policy.common.settings import Settings, needed
from mac_policy.rows.checkpoint import load_of_images
from mac_policy.rows.generation.features import NAME
from mac_policy.rows.generation.few_steps import (
    FewSteps,
    check_samples,
    distances,
    drawn_once,
    features_for,
    is_informative,
    possible_steps,
    set_with_classes,
    write_distances,
)
from mac_policy.rows.generation.infill import write_rows
from mac_policy.rows.likelihoods.presets import rows_of_arm
from mac_policy.rows.sets.registry import NUM_CLASSES


@dataclass(frozen=True)
class Options(Settings):
    """Where the arm, its data and the results are."""

    run: Annotated[Path, needed("the folder of a trained arm, such as runs/benchmark/sfarm/cifar10-cpu/sfarm-s0")]
    root: Path | None
    out: Path | None


def main(config: dict[str, Any]) -> None:
    settings = asked_of(config)
    options = options_of(Options, config)
    arm = options.run
    out = options.out or arm / "few_steps"
    model, spec = load_of_images(arm)
    numbers = possible_steps(model, settings.steps)
    rows = rows_of_arm(arm, options.root)
    set_with_classes(rows)
    count = check_samples(settings.samples, rows)
    network, accuracy = features_for(rows, options.root, settings.feature_steps)
    samples, seconds = {}, {}
    for steps in numbers:
        drawn, took = drawn_once(model, arm, out, count, steps, temperature=settings.temperature, seed=settings.seed)
        samples[steps], seconds[str(steps)] = drawn, round(took, 2)
        print(f"{count} samples in {steps} steps: {seconds[str(steps)]} s")
    write_rows(
        out / "samples.png",
        {f"{steps} steps": images[: settings.shown] for steps, images in samples.items()},
        spec.shape,
        spec.levels or 2,
    )
    record = run_record(settings.seed, rows.record())
    record |= {"arm": spec.method, "samples": count, "temperature": settings.temperature, "distance": {"about": NAME}}
    record |= {"seconds": seconds, "classifier": {"test_accuracy": accuracy}}
    if is_informative(accuracy):
        found = distances(network, samples, rows)
        record["distance"] |= found
        about = f"{spec.method} on {rows.name}"
        write_distances(out / "distances.png", found, f"{about}: {NAME}")
        Console().print(table_of(found, f"{about}, {count} samples: {NAME} (classifier: {accuracy:.1%} right)"))
    else:
        print(
            f"no distances: the classifier is right for {accuracy:.1%} of the test images, guessing for "
            f"{1 / NUM_CLASSES:.0%}, so that its features say nothing; raise feature_steps={settings.feature_steps}"
        )
    print(write_json(out / "results.json", record))


def table_of(found: Mapping[str, Any], title: str) -> Table:
    table = Table(title=title)
    table.add_column("steps", justify="right")
    table.add_column("distance", justify="right")
    for steps, distance in found["steps"].items():
        table.add_row(steps, f"{distance:.3f}")
    table.add_row("test images", f"{found['between_test_images']:.3f}")
    return table


def asked_of(config: dict[str, Any]) -> FewSteps:
    """What is drawn, by the options and the preset."""
    preset = config["presets"][check_choice("preset", config["preset"], config["presets"])]
    chosen = {field.name: config[field.name] for field in fields(FewSteps)}
    chosen |= {name: value for name, value in preset.items() if chosen[name] is None}
    return options_of(FewSteps, chosen)


COMMAND = Command(main, "few_steps/_few_steps")
