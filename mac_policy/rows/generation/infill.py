"""Filling in the missing parts of texts and images with a trained arm."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mac_policy.common import files as atomic
from mac_policy.common.checks import check_count
from mac_policy.rows.model import RowModel
from mac_policy.rows.patterns import HOLE, pieces
from mac_policy.rows.sets.text8 import ALPHABET, decode, encode

GREY = 127


def fill_text(
    model: RowModel,
    shown: str,
    *,
    steps: int | None = None,
    temperature: float = 1.0,
    generator: torch.Generator | None = None,
) -> str:
    """`shown` with every underscore replaced by a letter or a space. Fewer `steps` fill in several at once.

    A text longer than the model's chunk is filled in piece by piece; a shorter text is the beginning of a chunk whose
    rest is missing.

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
    if steps is not None:
        check_count("steps", steps)
    filled = model.sample(x, given=given, missing=~there, steps=steps, temperature=temperature, generator=generator)
    return "".join(decode(row[: len(part)].numpy()) for row, part in zip(filled, parts, strict=True))


def with_holes(text: str, given: Sequence[bool]) -> str:
    """The text with underscores for all characters that are not given.

    >>> from mac_policy.rows.generation.infill import with_holes
    >>> with_holes("abc", [True, False, True])
    'a_c'
    """
    return "".join(character if seen else HOLE for character, seen in zip(text, given, strict=True))


def check_text(text: str) -> str:
    """The text in lower case; ValueError unless it consists of letters, spaces and underscores."""
    if not text:
        raise ValueError("the text is empty: write a text with _ for each missing character")
    lower = text.lower()
    outside = sorted(set(lower) - set(ALPHABET) - {HOLE})
    if outside:
        count = sum(lower.count(character) for character in outside)
        named = ", ".join(map(repr, outside[:12]))
        raise ValueError(f"the text has {count} characters that are not a-z, a space or an underscore: {named}")
    return lower


def fill_rows(
    model: RowModel,
    x: Tensor,
    given: Tensor,
    *,
    steps: int | None = None,
    temperature: float = 1.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Rows (B, N) with all variables drawn that are not given. Fewer `steps` draw several variables at once."""
    if steps is not None:
        check_count("steps", steps)
    return model.sample(x, given=given, steps=steps, temperature=temperature, generator=generator)


def three_rows(x: Tensor, given: Tensor, filled: Tensor, shape: Sequence[int], levels: int) -> NDArray[np.uint8]:
    """One picture (3 H, B W, 3): the images, the same with holes in grey, and the fills."""
    grey = torch.full_like(x.float(), GREY / 255 * (levels - 1))
    shown = torch.where(given, x.float(), grey)
    return np.concatenate([strip(values, shape, levels) for values in (x, shown, filled)])


def strip(images: Tensor, shape: Sequence[int], levels: int) -> NDArray[np.uint8]:
    """Images (B, N) side by side, (H, B * W, 3)."""
    values = (images.float() * (255 / (levels - 1))).round().clamp(0, 255).byte().reshape(-1, *shape)
    colours = values.expand(-1, 3, -1, -1) if shape[0] == 1 else values
    picture: NDArray[np.uint8] = colours.permute(2, 0, 3, 1).reshape(shape[1], -1, 3).cpu().numpy()
    return picture


def write_picture(path: Path, picture: NDArray[np.uint8], zoom: int = 3) -> Path:
    """Write a PNG with every pixel as a square of `zoom` pixels."""
    import imageio.v3 as imageio

    check_count("zoom", zoom)
    large = picture.repeat(zoom, 0).repeat(zoom, 1)
    buffer = io.BytesIO()
    imageio.imwrite(buffer, large, extension=".png")
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_bytes(path, buffer.getvalue())
    return path


def read_picture(path: Path, shape: Sequence[int]) -> Tensor:
    """An image file as a row (1, N) of this shape, with values 0..255; its size must fit."""
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
