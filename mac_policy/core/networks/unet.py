"""ARDM's U-Net for images: residual blocks at full resolution, interleaved with attention."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, scaled_dot_product_attention, silu

from mac_policy.core.networks.base import SetNetwork, check_multiple, check_sizes, small_output
from mac_policy.core.networks.embeddings import Conditions


def group_norm(channels: int) -> nn.GroupNorm:
    """At most 32 groups, of at least 4 channels where the number allows it."""
    return nn.GroupNorm(math.gcd(32, max(channels // 4, 1)), channels)


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


class UNet(SetNetwork):
    """U-Net over images of ``shape`` (C, H, W); variable c * H * W + h * W + w is channel c of pixel (h, w).

    ``layers`` resolutions (each further one halves the image and doubles the channels) of ``blocks`` residual
    blocks on the way down and, with skip connections, ``blocks`` + 1 on the way up. ``layers=1`` keeps the
    full resolution throughout: ARDM's and MAC's network for 32 x 32 images is ``blocks=32`` and 256 channels.
    Attention follows every block at resolutions up to ``attention_size``. The step (share of variables seen),
    mode and context are embedded and added in every block. ``in_planes`` is the number of channels after an
    initial 1 x 1 convolution (SFARM), by default ``base_channels`` without one.

        network = UNet(shape=(3, 32, 32), num_features=1, num_params=256, blocks=32, base_channels=256)
    """

    def __init__(
        self,
        *,
        shape: tuple[int, int, int],
        num_features: int,
        num_params: int,
        context_dim: int = 0,
        num_modes: int = 0,
        base_channels: int = 64,
        in_planes: int | None = None,
        layers: int = 1,
        blocks: int = 2,
        heads: int = 1,
        attention_size: int = 32,
        dropout: float = 0.0,
    ) -> None:
        channels, height, width = check_shape(shape)
        super().__init__(
            num_variables=channels * height * width,
            num_features=num_features,
            num_params=num_params,
            context_dim=context_dim,
            num_modes=num_modes,
        )
        planes = base_channels if in_planes is None else in_planes
        check_sizes(base_channels=base_channels, in_planes=planes, layers=layers, blocks=blocks, heads=heads)
        check_sizes(0, attention_size=attention_size)
        check_multiple("base_channels", base_channels, "a quarter for the cardinality", 4)
        check_multiple("in_planes", planes, "heads", heads)
        check_multiple("height", height, "2^(layers-1)", 2 ** (layers - 1))
        check_multiple("width", width, "2^(layers-1)", 2 ** (layers - 1))
        self.shape = (channels, height, width)
        self.conditions = Conditions(base_channels, num_modes)
        self.context = nn.Linear(context_dim, base_channels) if context_dim else None
        self.input = ImageInput(channels * (num_features + 1), base_channels, base_channels)
        self.expand = nn.Conv2d(base_channels, planes, 1) if in_planes is not None else nn.Identity()
        self._build(planes, layers, blocks, base_channels, heads, attention_size, dropout)
        self.norm = group_norm(planes)
        self.output = nn.Conv2d(planes, channels * num_params, 3, padding=1)
        small_output(self.output)

    def _build(
        self,
        planes: int,
        layers: int,
        blocks: int,
        embedding: int,
        heads: int,
        attention_size: int,
        dropout: float,
    ) -> None:
        def stage(inputs: int, level: int, attend: bool | None = None) -> Stage:
            if attend is None:
                attend = max(self.shape[1:]) // 2**level <= attention_size
            outputs = planes * 2**level
            return Stage(inputs, outputs, embedding, heads=heads, attend=attend, dropout=dropout)

        current, skips = planes, [planes]
        self.down = nn.ModuleList()
        self.shrink = nn.ModuleList()
        for level in range(layers):
            stages = nn.ModuleList()
            for _ in range(blocks):
                stages.append(stage(current, level))
                current = planes * 2**level
                skips.append(current)
            self.down.append(stages)
            if level < layers - 1:
                self.shrink.append(nn.Conv2d(current, current, 3, stride=2, padding=1))
                skips.append(current)
        self.middle = nn.ModuleList([stage(current, layers - 1, True), stage(current, layers - 1, False)])
        self.up = nn.ModuleList()
        self.grow = nn.ModuleList()
        for level in reversed(range(layers)):
            stages = nn.ModuleList()
            for _ in range(blocks + 1):
                stages.append(stage(current + skips.pop(), level))
                current = planes * 2**level
            self.up.append(stages)
            if level > 0:
                self.grow.append(nn.Conv2d(current, current, 3, padding=1))

    def encode(self, context: Tensor | None) -> Tensor | None:
        self._check_context(context)
        return None if self.context is None else self.context(context)

    def forward(
        self, features: Tensor, evidence: Tensor, encoded: Tensor | None = None, mode: Tensor | None = None
    ) -> Tensor:
        visible = self._visible(features, evidence, encoded, mode)
        channels, height, width = self.shape
        values = visible.view(-1, channels, height, width, self.num_features)
        values = values.permute(0, 1, 4, 2, 3).flatten(1, 2)  # (B, C F, H, W)
        bits = evidence.view(-1, *self.shape).to(values.dtype)
        embedding = self.conditions(evidence, mode)
        if encoded is not None:
            embedding = embedding + encoded
        hidden = self.expand(self.input(torch.cat([values, bits], 1), embedding))
        hidden = self._through(hidden, embedding)
        params = self.output(silu(self.norm(hidden)))
        return params.view(-1, channels, self.num_params, height * width).transpose(2, 3).flatten(1, 2)

    def _through(self, hidden: Tensor, embedding: Tensor) -> Tensor:
        skips = [hidden]
        for level, stages in enumerate(self.down):
            for stage in stages:
                hidden = stage(hidden, embedding)
                skips.append(hidden)
            if level < len(self.shrink):
                hidden = self.shrink[level](hidden)
                skips.append(hidden)
        for stage in self.middle:
            hidden = stage(hidden, embedding)
        for level, stages in enumerate(self.up):
            for stage in stages:
                hidden = stage(torch.cat([hidden, skips.pop()], 1), embedding)
            if level < len(self.grow):
                hidden = self.grow[level](interpolate(hidden, scale_factor=2.0, mode="nearest"))
        return hidden


def check_shape(shape: tuple[int, int, int]) -> tuple[int, int, int]:
    if len(shape) != 3:
        raise ValueError(f"shape must be (channels, height, width), got {shape!r}")
    channels, height, width = shape
    check_sizes(channels=channels, height=height, width=width)
    return channels, height, width
