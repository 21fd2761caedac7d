"""What a run starts from: its processes, its optimiser, its share of the demonstrations."""

from __future__ import annotations

import torch
from lightning_fabric import Fabric
from torch import nn

from mac_policy.data.demonstrations import Demonstrations
from mac_policy.training.settings import TrainSettings


def make_fabric(settings: TrainSettings) -> Fabric:
    """Fabric with its processes launched (one process needs none)."""
    fabric = Fabric(
        accelerator=settings.accelerator,
        devices=settings.devices,
        num_nodes=settings.nodes,
        strategy=settings.strategy,
        precision=settings.fabric_precision(),
    )
    fabric.launch()
    return fabric


def split(demos: Demonstrations, validation: float, seed: int) -> tuple[Demonstrations, Demonstrations | None]:
    """Episodes to train on, and those held out, if any."""
    if validation == 0.0 or len(demos) < 2:
        return demos, None
    return demos.split(1 - validation, seed)


def make_optimizer(model: nn.Module, settings: TrainSettings) -> torch.optim.Optimizer:
    """Weight decay on matrices alone: biases and gains are no part of what should be small."""
    matrices = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": settings.weight_decay}, {"params": others, "weight_decay": 0.0}]
    made = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam
    return made(groups, lr=settings.learning_rate, fused=True)
