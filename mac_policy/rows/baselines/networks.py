"""The networks of the baselines, built from the parts of the any-order networks with the same settings.

Encoders and decoders are the two halves of a network, without skip connections between them: an encoder maps (features
(B, N, F), given (B, N)) to (B, outputs), a decoder z (B, L) to (B, N, P). The settings are those of an any-order
network: {'kind': 'mlp', 'width': 32, 'depth': 3}, {'kind': 'unet', ...}. A denoiser is a whole network.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from mac_policy.common.checks import check_choice
from mac_policy.core.heads.head import at_least_float32
from mac_policy.core.networks import MLP, SetNetwork, UNet
from mac_policy.core.networks.embeddings import StepAndMode, sinusoidal
from mac_policy.core.networks.image_blocks import ImageInput, Resize, Stage, as_planes, as_variables, group_norm
from mac_policy.core.networks.mlp import hidden_layers
from mac_policy.core.networks.network import small_output
from mac_policy.core.networks.unet import check_shape

DENOISERS: dict[str, type[SetNetwork]] = {"mlp": MLP, "unet": UNet}
TIME_DIM = 64  # size of the embedding of a denoiser's time
OF_PATHS_ALONE = ("step_dim", "mode_dim")  # settings of an MLP that do not apply here
SMALLEST = 8  # images are halved while their sides are even and longer than this


class TableEncoder(nn.Module):
    """Features and mask, concatenated, through hidden layers."""

    def __init__(
        self,
        shape: Sequence[int],
        num_features: int,
        outputs: int,
        *,
        width: int = 256,
        depth: int = 3,
        residual: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.hidden = hidden_layers(math.prod(shape) * (num_features + 1), width, depth, residual, dropout)
        self.output = nn.Linear(width, outputs)
        small_output(self.output)

    def forward(self, features: Tensor, given: Tensor) -> Tensor:
        out: Tensor = self.output(self.hidden(torch.cat([features.flatten(1), given.to(features.dtype)], 1)))
        return out


class TableDecoder(nn.Module):
    """z through hidden layers."""

    def __init__(
        self,
        shape: Sequence[int],
        latent_dim: int,
        num_params: int,
        *,
        width: int = 256,
        depth: int = 3,
        residual: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.hidden = hidden_layers(latent_dim, width, depth, residual, dropout)
        self.output = nn.Linear(width, math.prod(shape) * num_params)
        self.outputs = (math.prod(shape), num_params)
        small_output(self.output)

    def forward(self, z: Tensor) -> Tensor:
        out: Tensor = self.output(self.hidden(z))
        return out.view(-1, *self.outputs)


def stages(
    current: int,
    planes: int,
    attends: Mapping[int, bool],
    blocks: int,
    embedding: int,
    *,
    grow: bool,
    heads: int,
    dropout: float,
) -> nn.ModuleList:
    """The `blocks` stages of every level from `current` channels on, resized between two levels.

    attends: the levels in order, and whether attention follows the blocks of each; planes: channels of level 0.
    """
    found = nn.ModuleList()
    for level, attend in attends.items():
        if found:
            found.append(Resize(current, grow=grow))
        for _ in range(blocks):
            found.append(Stage(current, planes * 2**level, embedding, heads=heads, attend=attend, dropout=dropout))
            current = planes * 2**level
    return found


class ImageEncoder(nn.Module):
    """The downward path of the U-Net, to images of size `SMALLEST`; settings as `UNet`, at least `layers` levels."""

    def __init__(
        self,
        shape: Sequence[int],
        num_features: int,
        outputs: int,
        *,
        base_channels: int = 64,
        in_planes: int | None = None,
        layers: int = 1,
        blocks: int = 2,
        heads: int = 1,
        attention_size: int = 32,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.shape = channels, height, width = check_shape(tuple(shape))  # type: ignore[arg-type]
        planes = base_channels if in_planes is None else in_planes
        self.conditions = StepAndMode(base_channels, 0)
        self.input = ImageInput(channels * (num_features + 1), base_channels, base_channels)
        self.expand = nn.Conv2d(base_channels, planes, 1) if in_planes is not None else nn.Identity()
        last = num_levels(height, width, layers) - 1
        attends = {level: max(height, width) // 2**level <= attention_size for level in range(last + 1)}
        self.down = stages(planes, planes, attends, blocks, base_channels, grow=False, heads=heads, dropout=dropout)
        current = planes * 2**last
        self.norm = group_norm(current)
        self.output = nn.Linear(current * (height >> last) * (width >> last), outputs)
        small_output(self.output)

    def forward(self, features: Tensor, given: Tensor) -> Tensor:
        bits = given.view(-1, *self.shape).to(features.dtype)
        embedding = self.conditions(given, None)
        hidden = self.expand(self.input(torch.cat([as_planes(features, self.shape), bits], 1), embedding))
        for step in self.down:
            hidden = step(hidden, embedding)
        out: Tensor = self.output(silu(self.norm(hidden)).flatten(1))
        return out


class ImageDecoder(nn.Module):
    """The upward path of the U-Net: z is mapped to the smallest image, and its embedding is added in every block."""

    def __init__(
        self,
        shape: Sequence[int],
        latent_dim: int,
        num_params: int,
        *,
        base_channels: int = 64,
        in_planes: int | None = None,
        layers: int = 1,
        blocks: int = 2,
        heads: int = 1,
        attention_size: int = 32,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        channels, height, width = check_shape(tuple(shape))  # type: ignore[arg-type]
        planes = base_channels if in_planes is None else in_planes
        last = num_levels(height, width, layers) - 1
        current = planes * 2**last
        attends = {level: max(height, width) // 2**level <= attention_size for level in reversed(range(last + 1))}
        self.smallest = (current, height >> last, width >> last)
        self.embed = nn.Sequential(
            nn.Linear(latent_dim, base_channels), nn.SiLU(), nn.Linear(base_channels, base_channels)
        )
        self.input = nn.Linear(latent_dim, math.prod(self.smallest))
        self.up = stages(current, planes, attends, blocks, base_channels, grow=True, heads=heads, dropout=dropout)
        self.norm = group_norm(planes)
        self.output = nn.Conv2d(planes, channels * num_params, 3, padding=1)
        self.channels = channels
        small_output(self.output)

    def forward(self, z: Tensor) -> Tensor:
        embedding = self.embed(z)
        hidden = self.input(z).view(-1, *self.smallest)
        for step in self.up:
            hidden = step(hidden, embedding)
        return as_variables(self.output(silu(self.norm(hidden))), self.channels)


HALVES: dict[str, tuple[type[nn.Module], type[nn.Module]]] = {
    "mlp": (TableEncoder, TableDecoder),
    "unet": (ImageEncoder, ImageDecoder),
}


def make_halves(
    network: Mapping[str, Any],
    shape: Sequence[int],
    *,
    num_features: int,
    num_outputs: int,
    latent_dim: int,
    num_params: int,
) -> tuple[nn.Module, nn.Module]:
    """An encoder with `num_outputs` outputs and a decoder of z (B, latent_dim), of the network's kind and sizes."""
    sizes = {name: value for name, value in network.items() if name not in ("kind", *OF_PATHS_ALONE)}
    encoder, decoder = HALVES[check_choice("network of an autoencoder", network.get("kind"), HALVES)]
    taken = [name for name, it in inspect.signature(encoder).parameters.items() if it.kind is it.KEYWORD_ONLY]
    for name in sizes:
        check_choice("setting of the network", name, taken)
    return encoder(shape, num_features, num_outputs, **sizes), decoder(shape, latent_dim, num_params, **sizes)


def num_levels(height: int, width: int, layers: int) -> int:
    """The number of resolutions of an image autoencoder.

    >>> from mac_policy.rows.baselines.networks import num_levels
    >>> num_levels(28, 28, 1), num_levels(32, 32, 1), num_levels(64, 64, 2)
    (3, 3, 4)
    """
    levels = 1
    while (height | width) % 2 == 0 and (levels < layers or min(height, width) > SMALLEST):
        height, width, levels = height // 2, width // 2, levels + 1
    if levels < layers:
        raise ValueError(f"layers is {layers}: the image's sides can be halved {levels - 1} times only")
    return levels


class Denoiser(nn.Module):
    """Predicts the noise (B, N) from noisy numbers (B, N) and times (B,) in 0..1.

    network: kind and sizes of an MLP or a U-Net. Its context is the embedded time, its evidence the whole row.
    """

    def __init__(self, network: Mapping[str, Any], shape: Sequence[int]) -> None:
        super().__init__()
        cls: Any = DENOISERS[check_choice("network of a DDPM", network.get("kind"), DENOISERS)]
        sizes = {name: value for name, value in network.items() if name != "kind"}
        where = {"num_variables": math.prod(shape)} if cls is MLP else {"shape": tuple(shape)}
        self.time = nn.Sequential(nn.Linear(TIME_DIM, TIME_DIM), nn.SiLU(), nn.Linear(TIME_DIM, TIME_DIM))
        self.network: SetNetwork = cls(**where, num_features=1, num_params=1, context_dim=TIME_DIM, **sizes)

    def forward(self, noisy: Tensor, time: Tensor) -> Tensor:
        dtype = next(self.parameters()).dtype
        context = self.time(sinusoidal(1000 * time.to(dtype), TIME_DIM))
        everything = torch.ones_like(noisy, dtype=torch.bool)
        out = self.network(noisy.to(dtype)[..., None], everything, self.network.encode(context))
        return at_least_float32(out)[..., 0]
