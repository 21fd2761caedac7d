"""Fill the holes of texts and images with a trained arm."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from mac_policy.cli.command import Command, DrawingOptions, options_of
from mac_policy.common.settings import Count, Share, needed
from mac_policy.rows.checkpoint import load
from mac_policy.rows.generation.infill import (
    check_text,
    fill_text,
    in_mode_of,
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


@dataclass(frozen=True)
class Options(DrawingOptions):
    """See configs/infill.yaml."""

    run: Annotated[Path, needed("the folder of a trained arm, such as runs/benchmark/text8-cpu/mac-s0")]
    text: str | int | float | None
    image: Path | None
    rows: Count | None
    pattern: str
    ratio: Share
    mode: str | None
    zoom: Count

    def refuse(self, name: str, kind: str) -> None:
        if getattr(self, name) is not None:
            raise ValueError(f"{name}={getattr(self, name)} cannot be used: {self.run} is an arm for {kind}")


def main(config: dict[str, Any]) -> None:
    options = options_of(Options, config)
    model, spec = load(options.run)
    if len(spec.shape) == 1 and spec.levels == 27:
        options.refuse("image", "text")
        options.refuse("out", "text")
        texts(options, model)
    elif len(spec.shape) == 3 and spec.levels is not None:
        options.refuse("text", "images")
        images(options, model, spec)
    else:
        raise ValueError(f"{options.run} is an arm for tables: infill is for texts and images")


def texts(options: Options, model: RowModel) -> None:
    generator = torch.Generator().manual_seed(options.seed)
    asked = model if options.mode is None else model.in_mode(options.mode)
    if options.text is not None:
        whole = [check_text(str(options.text))]
    else:
        whole = [decode(row) for row in test_rows(options, 3).numpy()]
    for text in whole:
        shown = text
        if HOLE not in text:
            given = given_by_pattern(options.pattern, options.ratio, 1, (len(text),), generator)
            shown = with_holes(text, given[0].tolist())
        filled = fill_text(asked, shown, steps=options.steps, temperature=options.temperature, generator=generator)
        print(*([text] if shown != text else []), shown, filled, sep="\n", end="\n\n" if len(whole) > 1 else "\n")


def images(options: Options, model: RowModel, spec: ModelSpec) -> None:
    generator = torch.Generator().manual_seed(options.seed)
    asked = in_mode_of(model, options.pattern) if options.mode is None else model.in_mode(options.mode)
    if options.image is not None:
        x = read_picture(options.image, spec.shape)
        x = x if spec.levels == 256 else (x.float() / 255 * ((spec.levels or 2) - 1)).round().byte()
    else:
        x = test_rows(options, 18)
    given = given_by_pattern(options.pattern, options.ratio, len(x), spec.shape, generator)
    filled = asked.sample(x, given=given, steps=options.steps, temperature=options.temperature, generator=generator)
    out = options.out or options.run / "infill.png"
    print(write_picture(out, three_rows(x, given, filled, spec.shape, spec.levels or 2), options.zoom))


def test_rows(options: Options, default: int) -> Tensor:
    """The first test rows of the data that the arm was trained on."""
    count = default if options.rows is None else options.rows
    rows = rows_of_arm(options.run, options.root)
    return row_tensor(rows.test, np.arange(min(count, len(rows.test))))


COMMAND = Command(main, "infill")
