"""Pictures of completed and sampled images, arms side by side."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from torch import Tensor

from mac_policy.common import files as atomic
from mac_policy.common.checks import check_list
from mac_policy.rows.generation.infill import GREY, strip
from mac_policy.rows.model import RowModel
from mac_policy.rows.patterns import MODES, given_by_pattern, split_pattern
from mac_policy.training.streams import stream


def completions(
    models: Mapping[str, RowModel],
    x: Tensor,
    patterns: Sequence[str],
    shape: Sequence[int],
    *,
    steps: int | None = None,
    temperature: float = 1.0,
    seed: int = 0,
) -> tuple[Tensor, dict[str, Tensor]]:
    """The given mask of each image under each pattern (P, B, N), and the completions by every model (P, B, N).

    A model with activation modes is asked in the mode that fills the missing region last. All models share the masks.
    """
    split = [split_pattern(pattern) for pattern in patterns]
    given = torch.stack(
        [
            given_by_pattern(kind, share, len(x), shape, stream(seed, f"missing {pattern}"))
            for pattern, (kind, share) in zip(patterns, split, strict=True)
        ]
    )
    found = {}
    for name, model in models.items():
        fills = [
            in_mode_of(model, kind).sample(
                x, given=seen, steps=steps, temperature=temperature, generator=stream(seed, f"fill {pattern}")
            )
            for pattern, (kind, _), seen in zip(patterns, split, given, strict=True)
        ]
        found[name] = torch.stack(fills)
    return given, found


def check_patterns(option: str, patterns: Any, shape: Sequence[int]) -> list[str]:
    """The patterns of an option, each checked for rows of this shape; None is no pattern."""
    found = [str(pattern) for pattern in check_list(option, [] if patterns is None else patterns)]
    for pattern in found:
        try:
            given_by_pattern(*split_pattern(pattern), 1, shape)
        except ValueError as error:
            raise ValueError(f"{option}: {pattern!r}: {error}") from error
    return found


def in_mode_of(model: RowModel, pattern: str) -> RowModel:
    """The model in the mode that fills this pattern's region last, if it has that mode."""
    mode = MODES.get(pattern)
    return model.in_mode(mode) if mode is not None and mode in model.modes else model


def completion_rows(x: Tensor, given: Tensor, fills: Mapping[str, Tensor], levels: int) -> dict[str, Tensor]:
    """The rows of a picture by name (P * B, N): the data, the given part with grey holes, the completions."""
    grey = torch.full_like(x.float(), GREY / 255 * (levels - 1))
    rows = {"data": x.float().expand(given.shape), "shown": torch.where(given, x.float(), grey)}
    rows |= {name: filled.float() for name, filled in fills.items()}
    return {name: row.transpose(0, 1).flatten(0, 1) for name, row in rows.items()}


def write_rows(
    path: Path,
    rows: Mapping[str, Tensor],
    shape: Sequence[int],
    levels: int,
    *,
    columns: Sequence[str] = (),
    title: str = "",
    zoom: float = 0.6,
) -> Path:
    """Write a PNG of rows of images, with their names at the left; `columns` are the names above, repeated."""
    picture = np.concatenate([strip(row, shape, levels) for row in rows.values()])
    count = len(next(iter(rows.values())))
    figure = Figure(figsize=(1.2 + zoom * count, 0.8 + zoom * len(rows)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.imshow(picture, interpolation="nearest")
    axes.set_yticks(shape[1] * (np.arange(len(rows)) + 0.5) - 0.5, labels=list(rows))
    names = [columns[i % len(columns)] for i in range(count)] if columns else [""] * count
    axes.set_xticks(shape[2] * (np.arange(count) + 0.5) - 0.5, labels=names, rotation=45, fontsize=7)
    axes.tick_params(length=0)
    axes.xaxis.tick_top()
    if title:
        figure.suptitle(title)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_bytes(path, buffer.getvalue())
    return path
