"""What held-out demonstrations say of a policy: its loss, and for a likelihood model its calibration."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import torch

from mac_policy.common import files as atomic
from mac_policy.policies.policy import Policy
from mac_policy.policies.training_data import TrainingData
from mac_policy.training.fabric import Fabric
from mac_policy.training.streams import stream

ROWS = 2048  # of held-out data looked at


def held_out_rows(data: TrainingData, seed: int, limit: int = ROWS) -> torch.Tensor:
    """The same rows at every validation of a run."""
    order = torch.randperm(len(data), generator=stream(seed, "held-out rows"))
    return order[:limit].to(data.actions.device)


def write_calibration(path: Path, policy: Policy, data: TrainingData | None, seed: int) -> None:
    """For every variable, how many held-out values lie in its central 50% and 90% intervals."""
    if data is None or not policy.has_likelihood:
        return
    covered = policy.coverage(*data.batch(held_out_rows(data, seed)))
    shares = {
        f"coverage{percent}": [None if math.isnan(share) else round(float(share), 4) for share in row]
        for percent, row in covered.items()
    }
    atomic.write_text(path, json.dumps(shares, indent=2) + "\n")


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
        loss = policy(*data.batch(rows), draws.to(device))
    found = {"validation_loss": float(loss)}
    if policy.has_likelihood:
        covered = policy.coverage(*data.batch(rows))
        found |= {f"coverage{percent}": float(np.nanmean(shares)) for percent, shares in covered.items()}
    policy.train(training)
    result: dict[str, float] = fabric.broadcast(found)
    return result
