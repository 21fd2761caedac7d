"""Draw how the arms of a benchmark complete images (SFARM, Fig. 3 and 4). `--help` explains each option."""

from __future__ import annotations

from pathlib import Path

import hydra
import numpy as np
from _cli import clean_errors
from omegaconf import DictConfig

from mac_policy.common.checks import check_count, check_list, check_positive
from mac_policy.rows.checkpoint import load_arms
from mac_policy.rows.generation.grids import check_patterns, completion_rows, completions, write_rows
from mac_policy.rows.likelihoods.evaluate import row_tensor
from mac_policy.rows.likelihoods.presets import rows_of_arm


@hydra.main(config_path="../configs", config_name="completions", version_base=None)
@clean_errors
def main(config: DictConfig) -> None:
    check_options(config)
    if config.run is None:
        raise ValueError("run=... is missing: the folder of a benchmark, such as runs/benchmark/sfarm/mnist-cpu")
    run = Path(str(config.run))
    arms = load_arms(run, config.seed, None if config.arms is None else check_list("arms", config.arms))
    spec = next(iter(arms.values()))[1]
    if len(spec.shape) != 3 or spec.levels is None:
        raise ValueError(f"{run} holds no arms for images, but for rows of shape {spec.shape}")
    figures = {name: check_patterns(name, config[name], spec.shape) for name in ("missing", "masks")}
    rows = rows_of_arm(run / f"{next(iter(arms))}-s{config.seed}", config.root)
    x = row_tensor(rows.test, np.arange(min(config.images, len(rows.test))))
    models = {name: model for name, (model, _) in arms.items()}
    out = Path(str(config.out)) if config.out else run
    for figure, patterns in figures.items():
        if not patterns:
            continue
        given, fills = completions(
            models, x, patterns, spec.shape, steps=config.steps, temperature=config.temperature, seed=config.seed
        )
        pictures = completion_rows(x, given, fills, spec.levels)
        print(write_rows(out / f"completion_{figure}.png", pictures, spec.shape, spec.levels, columns=patterns))


def check_options(config: DictConfig) -> None:
    """What can be told before any arm is read."""
    check_positive("temperature", config.temperature)
    check_count("seed", config.seed, 0)
    check_count("images", config.images)
    if config.steps is not None:
        check_count("steps", config.steps)
    if not config.missing and not config.masks:
        raise ValueError("missing and masks are both empty: there is nothing to draw")


if __name__ == "__main__":
    main()
