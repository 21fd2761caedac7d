"""Building blocks of the U-Net; every step of it maps (image, condition embedding) to an image."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, scaled_dot_product_attention, silu

from mac_policy.core.networks.network import small_output


def group_norm(channels: int) -> nn.GroupNorm:
    """At most 32 groups, of at least 4 channels where the number allows it."""
    return nn.GroupNorm(math.gcd(32, max(channels // 4, 1)), channels)


def as_planes(features: Tensor, shape: tuple[int, int, int]) -> Tensor:
    """``(B, C H W, F)`` features of the variables of an image of ``shape`` (C, H, W) to ``(B, C F, H, W)``."""
    planes = features.view(-1, *shape, features.shape[-1]).permute(0, 1, 4, 2, 3)
    return planes.flatten(1, 2)


def as_variables(planes: Tensor, channels: int) -> Tensor:
    """``(B, C P, H, W)`` to the parameters of every variable, ``(B, C H W, P)``."""
    batch, outputs, height, width = planes.shape
    params = planes.view(batch, channels, outputs // channels, height * width)
    return params.transpose(2, 3).flatten(1, 2)


class ConvBlock(nn.Module):
    """Residual block of two 3x3 convolutions; the condition embedding is added in between."""

    def __init__(self, inputs: int, outputs: int, embedding: int, dropout: float) -> None:
        super().__init__()
        self.norm_in = group_norm(inputs)
        self.conv_in = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.embed = nn.Linear(embedding, outputs)
        self.norm_out = group_norm(outputs)
        self.dropout = nn.Dropout(dropout)
        self.conv_out = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.shortcut = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()
        small_output(self.conv_out)

    def forward(self, image: Tensor, embedding: Tensor) -> Tensor:
        hidden = self.conv_in(silu(self.norm_in(image)))
        hidden = hidden + self.embed(silu(embedding))[:, :, None, None]
        hidden = self.conv_out(self.dropout(silu(self.norm_out(hidden))))
        out: Tensor = self.shortcut(image) + hidden
        return out


class Attention(nn.Module):
    """Residual self-attention among all pixels."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = group_norm(channels)
        self.qkv = nn.Conv2d(channels, 3 * channels, 1)
        self.merge = nn.Conv2d(channels, channels, 1)
        small_output(self.merge)

    def forward(self, image: Tensor) -> Tensor:
        batch, channels, height, width = image.shape
        qkv = self.qkv(self.norm(image)).view(batch, 3, self.heads, channels // self.heads, -1)
        q, k, v = qkv.transpose(-1, -2).unbind(1)  # each (B, heads, H W, channels / heads)
        mixed = scaled_dot_product_attention(q, k, v).transpose(-1, -2)
        out: Tensor = image + self.merge(mixed.reshape(batch, channels, height, width))
        return out


class Stage(nn.Module):
    """One residual block, with attention after it where asked for."""

    def __init__(self, inputs: int, outputs: int, embedding: int, *, heads: int, attend: bool, dropout: float) -> None:
        super().__init__()
        self.block = ConvBlock(inputs, outputs, embedding, dropout)
        self.attention = Attention(outputs, heads) if attend else None

    def forward(self, image: Tensor, embedding: Tensor) -> Tensor:
        hidden: Tensor = self.block(image, embedding)
        if self.attention is not None:
            hidden = self.attention(hidden)
        return hidden


class ImageInput(nn.Module):
    """Values and mask by a convolution in 3/4 of the channels; the mask's cardinality and mode in the rest.

    ``(B, C * F + C, H, W)`` and the conditions ``(B, embedding)`` to ``(B, base_channels, H, W)``.
    """

    def __init__(self, inputs: int, base_channels: int, embedding: int) -> None:
        super().__init__()
        quarter = base_channels // 4
        self.image = nn.Conv2d(inputs, base_channels - quarter, 3, padding=1)
        self.cardinality = nn.Linear(embedding, quarter)

    def forward(self, image: Tensor, embedding: Tensor) -> Tensor:
        hidden = self.image(image)
        constant = self.cardinality(embedding)[:, :, None, None].expand(-1, -1, *hidden.shape[2:])
        return torch.cat([hidden, constant], 1)


class Resize(nn.Module):
    """Doubles (`grow`) or halves height and width."""

    def __init__(self, channels: int, grow: bool) -> None:
        super().__init__()
        self.grow = grow
        self.conv = nn.Conv2d(channels, channels, 3, stride=1 if grow else 2, padding=1)

    def forward(self, image: Tensor, embedding: Tensor) -> Tensor:
        out: Tensor = self.conv(interpolate(image, scale_factor=2.0, mode="nearest") if self.grow else image)
        return out
