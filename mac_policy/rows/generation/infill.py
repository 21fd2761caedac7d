"""Completion of missing parts of texts and images by trained arms, and pictures of the completions."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from mac_policy.common import files as atomic
from mac_policy.common.checks import check_count, check_list
from mac_policy.rows.model import RowModel
from mac_policy.rows.patterns import HOLE, MODES, given_by_pattern, pieces, split_pattern
from mac_policy.rows.sets.text8 import ALPHABET, decode, encode
from mac_policy.training.streams import stream

GREY = 127


def fill_text(
    model: RowModel,
    shown: str,
    *,
    steps: int | None = None,
    temperature: float = 1.0,
    generator: torch.Generator | None = None,
) -> str:
    """Replace each underscore of `shown` by a sampled letter or space. Fewer `steps` sample several at once.

    A text that is longer than the model's chunk is split into pieces. A shorter text is the beginning of a chunk whose
    remaining characters are missing.

    >>> fill_text(model, "the c_t sat on the ___")  # doctest: +SKIP
    'the cat sat on the mat'
    """
    parts = pieces(check_text(shown), model.num_variables)
    x = torch.zeros(len(parts), model.num_variables, dtype=torch.uint8)
    given, there = torch.zeros_like(x, dtype=torch.bool), torch.zeros_like(x, dtype=torch.bool)
    for row, part in enumerate(parts):
        x[row, : len(part)] = torch.from_numpy(encode(part.replace(HOLE, " ")).copy())
        given[row, : len(part)] = torch.tensor([character != HOLE for character in part])
        there[row, : len(part)] = True
    filled = model.sample(x, given=given, missing=~there, steps=steps, temperature=temperature, generator=generator)
    return "".join(decode(row[: len(part)].numpy()) for row, part in zip(filled, parts, strict=True))


def with_holes(text: str, given: Sequence[bool]) -> str:
    """Replace all characters that are not given by underscores.

    >>> from mac_policy.rows.generation.infill import with_holes
    >>> with_holes("abc", [True, False, True])
    'a_c'
    """
    return "".join(character if seen else HOLE for character, seen in zip(text, given, strict=True))


def check_text(text: str) -> str:
    """Convert the text to lower case. ValueError unless it consists of letters, spaces and underscores."""
    if not text:
        raise ValueError("the text is empty: write a text with _ for each missing character")
    lower = text.lower()
    outside = sorted(set(lower) - set(ALPHABET) - {HOLE})
    if outside:
        count = sum(lower.count(character) for character in outside)
        named = ", ".join(map(repr, outside[:12]))
        raise ValueError(f"the text has {count} characters that are not a-z, a space or an underscore: {named}")
    return lower


def three_rows(x: Tensor, given: Tensor, filled: Tensor, shape: Sequence[int], levels: int) -> NDArray[np.uint8]:
    """One picture (3 * H, B * W, 3): the images, the given parts on grey, and the completions."""
    return picture_of(completion_rows(x, given[None], {"filled": filled[None]}, levels), shape, levels)


def picture_of(rows: Mapping[str, Tensor], shape: Sequence[int], levels: int) -> NDArray[np.uint8]:
    """Stack rows of images (B, N) vertically, (R * H, B * W, 3)."""
    return np.concatenate([strip(row, shape, levels) for row in rows.values()])


def strip(images: Tensor, shape: Sequence[int], levels: int) -> NDArray[np.uint8]:
    """Concatenate images (B, N) horizontally, (H, B * W, 3)."""
    values = (images.float() * (255 / (levels - 1))).round().clamp(0, 255).byte().reshape(-1, *shape)
    colours = values.expand(-1, 3, -1, -1) if shape[0] == 1 else values
    picture: NDArray[np.uint8] = colours.permute(2, 0, 3, 1).reshape(shape[1], -1, 3).cpu().numpy()
    return picture


def write_picture(path: Path, picture: NDArray[np.uint8], zoom: int = 3) -> Path:
    """Write a PNG that is enlarged by the integer factor `zoom`."""
    import imageio.v3 as imageio

    check_count("zoom", zoom)
    large = picture.repeat(zoom, 0).repeat(zoom, 1)
    buffer = io.BytesIO()
    imageio.imwrite(buffer, large, extension=".png")
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_bytes(path, buffer.getvalue())
    return path


def read_picture(path: Path, shape: Sequence[int]) -> Tensor:
    """Read an image file as a row (1, N) with values 0..255. ValueError unless its size is that of `shape`."""
    import imageio.v3 as imageio

    try:
        pixels = np.asarray(imageio.imread(path, plugin="pillow", mode="L" if shape[0] == 1 else "RGB"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is not a readable image: {error}") from error
    if pixels.shape[:2] != tuple(shape[1:]):
        wanted = f"{shape[1]} x {shape[2]}"
        raise ValueError(f"{path} is {pixels.shape[0]} x {pixels.shape[1]} pixels, this model's images are {wanted}")
    channels_first = pixels[None] if shape[0] == 1 else pixels.transpose(2, 0, 1)
    return torch.from_numpy(np.ascontiguousarray(channels_first)).reshape(1, -1)


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

    A model with activation modes samples in the mode that fills the missing region last. All models share the masks.
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
    """Check the patterns of an option for rows of this shape. None gives an empty list."""
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
    """The rows of a picture by name (P * B, N): the data, the given parts on grey, and the completions."""
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
    """Write a PNG of rows of images. Row names are at the left; `columns` are the names above, repeated cyclically."""
    count = len(next(iter(rows.values())))
    figure = Figure(figsize=(1.2 + zoom * count, 0.8 + zoom * len(rows)), layout="constrained")
    axes = figure.subplots()
    axes.imshow(picture_of(rows, shape, levels), interpolation="nearest")
    axes.set_yticks(shape[1] * (np.arange(len(rows)) + 0.5) - 0.5, labels=list(rows))
    names = [columns[i % len(columns)] for i in range(count)] if columns else [""] * count
    axes.set_xticks(shape[2] * (np.arange(count) + 0.5) - 0.5, labels=names, rotation=45, fontsize=7)
    axes.tick_params(length=0)
    axes.xaxis.tick_top()
    if title:
        figure.suptitle(title)
    return atomic.write_figure(path, figure, 150)
