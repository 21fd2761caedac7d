"""Which dimensions an operator may command, as mask distributions over a chunk of actions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mac_policy.core.masks import FixedMasks, MaskDistribution, UniformCardinality


class FirstStep:
    """Masks over the action dims of a chunk's first step; the steps after it are not commanded yet.

    In a share `plans` of the masks a plan is in progress: one or more whole steps after the first are evidence, too.
    """

    def __init__(self, masks: MaskDistribution, horizon: int, plans: float = 0.0) -> None:
        self.masks, self.horizon, self.plans = masks, horizon, plans
        self.num_variables = masks.num_variables * horizon

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        first = self.masks.sample(n, generator)
        later = torch.zeros(n, self.horizon - 1, first.shape[1], dtype=torch.bool)
        if self.plans:
            steps = torch.randint(1, self.horizon, (n, 1), generator=generator)
            steps *= torch.rand((n, 1), generator=generator) < self.plans
            later |= (torch.arange(self.horizon - 1) < steps)[..., None]
        return torch.cat([first, later.flatten(1)], 1)


def operator_masks(
    action_dim: int, horizon: int, subsets: Sequence[Sequence[int]], plans: float = 0.0
) -> MaskDistribution:
    """The held dims to train for: one of `subsets`, or of all subsets with a uniform cardinality when it is empty."""
    evidence: MaskDistribution = (
        FixedMasks(subset_masks(action_dim, subsets)) if subsets else UniformCardinality(action_dim, 0, action_dim - 1)
    )
    return FirstStep(evidence, horizon, plans) if horizon > 1 else evidence


def subset_masks(action_dim: int, subsets: Sequence[Sequence[int]]) -> Tensor:
    """Lists of action dims as (K, action_dim) bool masks."""
    masks = torch.zeros(len(subsets), action_dim, dtype=torch.bool)
    for row, subset in enumerate(subsets):
        for dim in subset:
            if not 0 <= dim < action_dim:
                raise ValueError(f"subsets[{row}] names dim {dim}: action dims are 0..{action_dim - 1}")
            masks[row, dim] = True
        if bool(masks[row].all()):
            raise ValueError(f"subsets[{row}] holds all {action_dim} dims: nothing is left to fill in")
    return masks
