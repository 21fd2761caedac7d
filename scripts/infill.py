"""Fill the holes of texts and images with a trained arm. `--help` explains each option."""

from __future__ import annotations

from pathlib import Path

import hydra
import numpy as np
import torch
from _cli import clean_errors
from omegaconf import DictConfig
from torch import Tensor

from mac_policy.common.checks import check_count, check_positive
from mac_policy.rows.checkpoint import load
from mac_policy.rows.generation.grids import in_mode_of
from mac_policy.rows.generation.infill import (
    check_text,
    fill_rows,
    fill_text,
    read_picture,
    three_rows,
    with_holes,
    write_picture,
)
from mac_policy.rows.likelihoods.evaluate import row_tensor
from mac_policy.rows.likelihoods.presets import rows_of_arm
from mac_policy.rows.model import RowModel
from mac_policy.rows.patterns import HOLE, given_by_pattern
from mac_policy.rows.sets.text8 import decode
from mac_policy.rows.spec import ModelSpec


@hydra.main(config_path="../configs", config_name="infill", version_base=None)
@clean_errors
def main(config: DictConfig) -> None:
    check_positive("temperature", config.temperature)
    check_count("seed", config.seed, 0)
    check_count("zoom", config.zoom)
    for option in ("rows", "steps"):
        if config[option] is not None:
            check_count(option, config[option])
    if config.run is None:
        raise ValueError("run=... is missing: the folder of a trained arm, such as runs/benchmark/text8-cpu/mac-s0")
    model, spec = load(str(config.run))
    if len(spec.shape) == 1 and spec.levels == 27:
        refuse(config, "image", "text")
        refuse(config, "out", "text")
        texts(config, model, spec)
    elif len(spec.shape) == 3 and spec.levels is not None:
        refuse(config, "text", "images")
        images(config, model, spec)
    else:
        raise ValueError(f"{config.run} is an arm for tables: infill is for texts and images")


def refuse(config: DictConfig, option: str, kind: str) -> None:
    if config[option] is not None:
        raise ValueError(f"{option}={config[option]} cannot be used: {config.run} is an arm for {kind}")


def texts(config: DictConfig, model: RowModel, spec: ModelSpec) -> None:
    generator = torch.Generator().manual_seed(config.seed)
    asked = model if config.mode is None else model.in_mode(config.mode)
    if config.text is not None:
        whole = [check_text(str(config.text))]
    else:
        whole = [decode(row) for row in test_rows(config, 3).numpy()]
    for text in whole:
        shown = text
        if HOLE not in text:
            given = given_by_pattern(config.pattern, config.ratio, 1, (len(text),), generator)
            shown = with_holes(text, given[0].tolist())
        filled = fill_text(asked, shown, steps=config.steps, temperature=config.temperature, generator=generator)
        print(*([text] if shown != text else []), shown, filled, sep="\n", end="\n\n" if len(whole) > 1 else "\n")


def images(config: DictConfig, model: RowModel, spec: ModelSpec) -> None:
    generator = torch.Generator().manual_seed(config.seed)
    asked = in_mode_of(model, config.pattern) if config.mode is None else model.in_mode(config.mode)
    if config.image is not None:
        x = read_picture(Path(str(config.image)), spec.shape)
        x = x if spec.levels == 256 else (x.float() / 255 * ((spec.levels or 2) - 1)).round().byte()
    else:
        x = test_rows(config, 18)
    given = given_by_pattern(config.pattern, config.ratio, len(x), spec.shape, generator)
    filled = fill_rows(asked, x, given, steps=config.steps, temperature=config.temperature, generator=generator)
    out = Path(str(config.out)) if config.out else Path(str(config.run)) / "infill.png"
    print(write_picture(out, three_rows(x, given, filled, spec.shape, spec.levels or 2), config.zoom))


def test_rows(config: DictConfig, default: int) -> Tensor:
    """The first test rows of the data that the arm was trained on."""
    count = default if config.rows is None else config.rows
    rows = rows_of_arm(Path(str(config.run)), config.root)
    return row_tensor(rows.test, np.arange(min(count, len(rows.test))))


if __name__ == "__main__":
    main()
