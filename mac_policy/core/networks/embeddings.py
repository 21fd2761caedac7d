"""Embeddings of the step (how much is seen) and of the activation mode, shared by the networks."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from mac_policy.core.networks.network import check_multiple


def sinusoidal(position: Tensor, dim: int, period: float = 10_000.0) -> Tensor:
    """``(B,)`` positions to ``(B, dim)``: sines and cosines at geometrically spaced frequencies."""
    half = dim // 2
    steps = torch.arange(half, device=position.device, dtype=position.dtype)
    angles = position[:, None] * (-math.log(period) / half * steps).exp()
    return torch.cat([angles.sin(), angles.cos()], -1)


def rotated(x: Tensor, period: float = 10_000.0) -> Tensor:
    """``(..., L, D)`` with the vector of position l turned by angles proportional to l (Su et al. 2021).

    Products of two such vectors depend on their distance alone: attention finds neighbours without first having to
    learn which positions those are.
    """
    return turned(x, sinusoidal(torch.arange(x.shape[-2], device=x.device, dtype=torch.float32), x.shape[-1], period))


def turned(x: Tensor, turn: Tensor) -> Tensor:
    """``(..., D)`` turned by angles whose sines and cosines `turn` (..., D) holds."""
    sin, cos = turn.to(x.dtype).chunk(2, -1)
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)


class StepEmbedding(nn.Module):
    """``(B, N)`` evidence to ``(B, dim)``: the sinusoidal embedding of 1000 times the share that is seen."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        check_multiple("the step embedding's size", dim, "the sine and cosine pair", 2)
        self.dim = dim

    def forward(self, evidence: Tensor, dtype: torch.dtype) -> Tensor:
        share = evidence.to(torch.float64).mean(1)
        return sinusoidal(1000 * share, self.dim).to(dtype)


class StepAndMode(nn.Module):
    """Step and mode, each embedded and (for networks that add rather than concatenate) projected.

    ``(B, N)`` evidence, ``(B,)`` mode or None -> ``(B, dim)``.
    """

    def __init__(self, dim: int, num_modes: int) -> None:
        super().__init__()
        self.step = StepEmbedding(dim)
        self.mode = nn.Embedding(num_modes, dim) if num_modes > 1 else None
        self.project = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, evidence: Tensor, mode: Tensor | None) -> Tensor:
        dtype = self.project[0].weight.dtype
        hidden = self.step(evidence, dtype)
        if self.mode is not None:
            hidden = hidden + self.mode(mode)
        out: Tensor = self.project(hidden)
        return out
