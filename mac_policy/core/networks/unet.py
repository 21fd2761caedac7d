"""ARDM's U-Net for images: residual blocks at full resolution, interleaved with attention."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from mac_policy.core.networks.embeddings import StepAndMode
from mac_policy.core.networks.image_blocks import ImageInput, Resize, Stage, as_planes, as_variables, group_norm
from mac_policy.core.networks.network import SetNetwork, check_multiple, check_sizes, small_output


class UNet(SetNetwork):
    """U-Net over images of ``shape`` (C, H, W); variable c * H * W + h * W + w is channel c of pixel (h, w).

    ``layers`` resolutions (each further one halves the image and doubles the channels) of ``blocks`` residual
    blocks on the way down and, with skip connections, ``blocks`` + 1 on the way up. ``layers=1`` keeps the
    full resolution throughout: ARDM's and MAC's network for 32 x 32 images is ``blocks=32`` and 256 channels.
    Attention follows every block at resolutions up to ``attention_size``, and always the first in the middle. The
    step (share of variables seen), mode and context are embedded and added in every block. ``in_planes`` is the
    number of channels after an initial 1 x 1 convolution (SFARM), by default ``base_channels`` without one.

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
        self.conditions = StepAndMode(base_channels, num_modes)
        self.context = nn.Linear(context_dim, base_channels) if context_dim else None
        self.input = ImageInput(channels * (num_features + 1), base_channels, base_channels)
        self.expand = nn.Conv2d(base_channels, planes, 1) if in_planes is not None else nn.Identity()
        attends = [max(height, width) // 2**level <= attention_size for level in range(layers)]

        def stage(inputs: int, level: int, attend: bool) -> Stage:
            outputs = planes * 2**level
            return Stage(inputs, outputs, base_channels, heads=heads, attend=attend, dropout=dropout)

        current, skips = planes, [planes]
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        for level in range(layers):
            for _ in range(blocks):
                self.down.append(stage(current, level, attends[level]))
                current = planes * 2**level
                skips.append(current)
            if level < layers - 1:
                self.down.append(Resize(current, grow=False))
                skips.append(current)
        self.middle = nn.ModuleList(stage(current, layers - 1, attend) for attend in (True, False))
        for level in reversed(range(layers)):
            for _ in range(blocks + 1):
                self.up.append(stage(current + skips.pop(), level, attends[level]))
                current = planes * 2**level
            if level > 0:
                self.up.append(Resize(current, grow=True))
        self.norm = group_norm(planes)
        self.output = nn.Conv2d(planes, channels * num_params, 3, padding=1)
        small_output(self.output)

    def encode(self, context: Tensor | None) -> Tensor | None:
        self._check_context(context)
        return None if self.context is None else self.context(context)

    def forward(
        self, features: Tensor, evidence: Tensor, encoded: Tensor | None = None, mode: Tensor | None = None
    ) -> Tensor:
        visible = self._visible(features, evidence, encoded, mode)
        values = as_planes(visible, self.shape)
        bits = evidence.view(-1, *self.shape).to(values.dtype)
        embedding = self.conditions(evidence, mode)
        if encoded is not None:
            embedding = embedding + encoded
        hidden = self.expand(self.input(torch.cat([values, bits], 1), embedding))
        hidden = self._through(hidden, embedding)
        return as_variables(self.output(silu(self.norm(hidden))), self.shape[0])

    def _through(self, hidden: Tensor, embedding: Tensor) -> Tensor:
        skips = [hidden]
        for step in self.down:
            hidden = step(hidden, embedding)
            skips.append(hidden)
        for step in self.middle:
            hidden = step(hidden, embedding)
        for step in self.up:
            if isinstance(step, Stage):
                hidden = torch.cat([hidden, skips.pop()], 1)
            hidden = step(hidden, embedding)
        return hidden


def check_shape(shape: tuple[int, int, int]) -> tuple[int, int, int]:
    if len(shape) != 3:
        raise ValueError(f"shape must be (channels, height, width), got {shape!r}")
    channels, height, width = shape
    check_sizes(channels=channels, height=height, width=width)
    return channels, height, width
