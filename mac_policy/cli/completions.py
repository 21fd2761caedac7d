"""Draw how the arms of a benchmark complete images (SFARM, Fig. 3 and 4)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from mac_policy.cli.command import Command, DrawingOptions, options_of
from mac_policy.common.settings import Count, Names, needed
from mac_policy.rows.checkpoint import load_arms
from mac_policy.rows.generation.infill import check_patterns, completion_rows, completions, write_rows
from mac_policy.rows.likelihoods.evaluate import row_tensor
from mac_policy.rows.likelihoods.presets import rows_of_arm


@dataclass(frozen=True)
class Options(DrawingOptions):
    """See configs/completions.yaml."""

    run: Annotated[Path, needed("the folder of a benchmark, such as runs/benchmark/sfarm/mnist-cpu")]
    arms: Names | None
    images: Count
    missing: tuple[str, ...]
    masks: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.missing and not self.masks:
            raise ValueError("missing and masks are both empty: there is nothing to draw")


def main(config: dict[str, Any]) -> None:
    options = options_of(Options, config)
    run = options.run
    arms = load_arms(run, options.seed, None if options.arms is None else list(options.arms))
    spec = next(iter(arms.values()))[1]
    if len(spec.shape) != 3 or spec.levels is None:
        raise ValueError(f"{run} holds no arms for images, but for rows of shape {spec.shape}")
    figures = {name: check_patterns(name, list(getattr(options, name)), spec.shape) for name in ("missing", "masks")}
    rows = rows_of_arm(run / f"{next(iter(arms))}-s{options.seed}", options.root)
    x = row_tensor(rows.test, np.arange(min(options.images, len(rows.test))))
    models = {name: model for name, (model, _) in arms.items()}
    for figure, patterns in figures.items():
        if not patterns:
            continue
        given, fills = completions(
            models, x, patterns, spec.shape, steps=options.steps, temperature=options.temperature, seed=options.seed
        )
        pictures = completion_rows(x, given, fills, spec.levels)
        path = (options.out or run) / f"completion_{figure}.png"
        print(write_rows(path, pictures, spec.shape, spec.levels, columns=patterns))


COMMAND = Command(main, "completions")
