"""What held-out demonstrations say of a policy: its loss, and for a likelihood model its calibration."""

from __future__ import annotations

import torch
from lightning_fabric import Fabric

from mac_policy.policies.base import Policy
from mac_policy.training.data import TrainingData
from mac_policy.training.streams import stream

ROWS = 2048  # of held-out data looked at


def held_out_rows(data: TrainingData, seed: int, limit: int = ROWS) -> torch.Tensor:
    """The same rows at every validation of a run."""
    order = torch.randperm(len(data), generator=stream(seed, "held-out rows"))
    return order[:limit].to(data.actions.device)


@torch.no_grad()
def validate(policy: Policy, data: TrainingData, seed: int, fabric: Fabric) -> dict[str, float]:
    """validation_loss with the same masks and noise every time, and the coverage of a likelihood model's
    central 50% and 90% intervals; the first process decides for all."""
    training = policy.training
    policy.eval()
    rows = held_out_rows(data, seed)
    draws = policy.draw(len(rows), stream(seed, "held-out draws"))
    device = data.actions.device
    with fabric.autocast():
        loss = policy(*data.batch(rows), {k: v.to(device) for k, v in draws.items()})
    found = {"validation_loss": float(loss)} | policy.calibration(*data.batch(rows))
    policy.train(training)
    result: dict[str, float] = fabric.broadcast(found)
    return result
