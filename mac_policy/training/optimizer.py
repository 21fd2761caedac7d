"""The optimiser of a training, its learning rate over the steps, and the exponential moving average of weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mac_policy.training.settings import TrainSettings


def make_optimizer(model: nn.Module, settings: TrainSettings) -> torch.optim.Optimizer:
    """Adam or AdamW. Weight decay applies to matrices alone, not to biases and gains."""
    learned = [p for p in model.parameters() if p.requires_grad]
    matrices = [p for p in learned if p.ndim > 1]
    others = [p for p in learned if p.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": settings.weight_decay}, {"params": others, "weight_decay": 0.0}]
    made = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam
    return made(groups, lr=settings.learning_rate, fused=True)


def rate(step: int, total: int, warmup: float, schedule: str) -> float:
    """The learning rate at a step, as a share of its peak."""
    rise = warmup * total if warmup <= 1 else warmup
    if step < rise:
        return (step + 1) / (rise + 1)
    if schedule == "constant":
        return 1.0
    progress = torch.tensor((step - rise) / max(1.0, total - rise), dtype=torch.float64)
    if schedule == "linear":
        return float(1 - progress)
    return float(0.5 * (1 + torch.cos(torch.pi * progress)))


@torch.no_grad()
def update_average(average: list[Tensor], weights: list[Tensor], decay: float, step: int) -> None:
    """average <- d average + (1 - d) weights. d rises to `decay`, so that the first steps are forgotten."""
    share = 1 - min(decay, (1 + step) / (10 + step))
    torch._foreach_lerp_(average, weights, share)
