"""Draw how images come about pixel by pixel (SFARM, Fig. 1). `--help` explains each option."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import hydra
from _cli import clean_errors
from omegaconf import DictConfig

from mac_policy.rows.checkpoint import load_of_images
from mac_policy.rows.generation.along_path import Generation, check_path, generation, generation_rows, shares
from mac_policy.rows.generation.grids import write_rows


@hydra.main(config_path="../configs", config_name="generation", version_base=None)
@clean_errors
def main(config: DictConfig) -> None:
    asked = Generation(**{field.name: config[field.name] for field in fields(Generation)})
    if config.run is None:
        raise ValueError("run=... is missing: the folder of a trained arm, runs/benchmark/sfarm/mnist-cpu/sfarm-s0")
    arm = Path(str(config.run))
    loaded, spec = load_of_images(arm)
    model = check_path(loaded, spec.method)
    if config.mode is not None:
        model = model.in_mode(config.mode)
    out = Path(str(config.out)) if config.out else arm
    out.mkdir(parents=True, exist_ok=True)
    moments = generation(model, asked)
    rows = generation_rows(moments, spec.levels)
    print(write_rows(out / "generation.png", rows, spec.shape, spec.levels, columns=shares(moments), zoom=0.8))


if __name__ == "__main__":
    main()
