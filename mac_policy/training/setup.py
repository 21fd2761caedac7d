"""What a run starts from: its processes, its optimiser, its share of the demonstrations."""

from __future__ import annotations

import atexit

import torch
from lightning_fabric import Fabric
from torch import distributed, nn

from mac_policy.demonstrations.demonstrations import Demonstrations
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
    if fabric.world_size > 1:
        atexit.register(leave_group)
    return fabric


def leave_group() -> None:
    """Leave the other processes in good order: a process that exits with gloo's threads running may abort."""
    if distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()


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
