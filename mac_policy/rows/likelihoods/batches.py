"""Random variations of training rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mac_policy.common.checks import check_choice
from mac_policy.common.settings import check_range

VARIATIONS = ("flip", "flip-both", "rotate")


@dataclass(frozen=True)
class Variation:
    """Random variations of training rows, drawn anew in each step.

    noise: standard deviation of gaussian noise on tables, in normalised units
    images: 'flip' left-right, 'flip-both' also top-bottom, 'rotate' by 90 degrees, each with probability 1/2
    """

    noise: float = 0.0
    images: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_range("noise", self.noise, 0.0)
        for name in self.images:
            check_choice("variation of images", name, VARIATIONS)

    def check_fits(self, shape: Sequence[int], levels: int | None) -> None:
        """ValueError if rows of this shape and with this number of levels (None: real numbers) cannot be varied so."""
        if self.noise and levels is not None:
            raise ValueError(
                f"variation.noise={self.noise} is for real numbers, these rows have values 0..{levels - 1}"
            )
        if self.images and len(shape) != 3:
            names = ", ".join(self.images)
            raise ValueError(f"variation.images=[{names}] is for images, these rows have shape {tuple(shape)}")
        if "rotate" in self.images:
            check_square(shape[1], shape[2])

    def __call__(self, x: Tensor, shape: Sequence[int], generator: torch.Generator) -> Tensor:
        """Rows (B, N) of images or tables of this shape, varied."""
        if self.noise:
            x = x + self.noise * torch.randn(x.shape, generator=generator)
        if self.images:
            x = vary_images(x.view(-1, *shape), self.images, generator).reshape(x.shape)
        return x


def vary_images(images: Tensor, names: Sequence[str], generator: torch.Generator) -> Tensor:
    """(B, C, H, W), each variation of each image with probability 1/2."""
    moves = {"flip": [_flip], "flip-both": [_flip, _flip_vertically], "rotate": [_rotate]}
    for name in names:
        for move in moves[name]:
            chosen = torch.rand(len(images), generator=generator) < 0.5
            images = torch.where(chosen[:, None, None, None], move(images), images)
    return images


def _flip(images: Tensor) -> Tensor:
    return images.flip(3)


def _flip_vertically(images: Tensor) -> Tensor:
    return images.flip(2)


def check_square(height: int, width: int) -> None:
    if height != width:
        raise ValueError(f"only square images can be rotated, these are {height} x {width}")


def _rotate(images: Tensor) -> Tensor:
    check_square(images.shape[2], images.shape[3])
    return images.rot90(1, (2, 3))
