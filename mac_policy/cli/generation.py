"""Draw how images come about pixel by pixel (SFARM, Fig. 1)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from mac_policy.cli.command import Command, options_of
from mac_policy.common.settings import Settings, needed
from mac_policy.rows.checkpoint import load_of_images
from mac_policy.rows.generation.along_path import Generation, check_path, generation, generation_rows, shares
from mac_policy.rows.generation.infill import write_rows


@dataclass(frozen=True)
class Options(Settings):
    """Where the arm and the picture are, and the mode of the arm."""

    run: Annotated[Path, needed("the folder of a trained arm, such as runs/benchmark/sfarm/mnist-cpu/sfarm-s0")]
    mode: str | None
    out: Path | None


def main(config: dict[str, Any]) -> None:
    settings = options_of(Generation, config)
    options = options_of(Options, config)
    loaded, spec = load_of_images(options.run)
    model = check_path(loaded, spec.method)
    if options.mode is not None:
        model = model.in_mode(options.mode)
    out = options.out or options.run
    out.mkdir(parents=True, exist_ok=True)
    moments = generation(model, settings)
    rows = generation_rows(moments, spec.levels or 2)
    print(write_rows(out / "generation.png", rows, spec.shape, spec.levels or 2, columns=shares(moments), zoom=0.8))


COMMAND = Command(main, "generation")
