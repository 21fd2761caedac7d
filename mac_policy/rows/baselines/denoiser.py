"""The network of a diffusion model: an any-order network that is told the noise level and that all is seen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from mac_policy.common.checks import check_choice
from mac_policy.core.heads.head import at_least_float32
from mac_policy.core.networks import MLP, SetNetwork, UNet
from mac_policy.core.networks.embeddings import sinusoidal

NETWORKS: dict[str, type[SetNetwork]] = {"mlp": MLP, "unet": UNet}
TIME_DIM = 64


class Denoiser(nn.Module):
    """(noisy numbers (B, N), times (B,) in 0..1) to the noise in them (B, N).

    network: kind and sizes of an MLP or a U-Net. The time, embedded, is its context.
    """

    def __init__(self, network: Mapping[str, Any], shape: Sequence[int]) -> None:
        super().__init__()
        cls: Any = NETWORKS[check_choice("network of a DDPM", network.get("kind"), NETWORKS)]
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
