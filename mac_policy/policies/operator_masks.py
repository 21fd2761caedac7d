"""Which dimensions an operator may command, as mask distributions over a chunk of actions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mac_policy.core.masks import FixedMasks, MaskDistribution, UniformCardinality


class FirstStep:
    """Masks over the action dims of a chunk's first step; the steps after it are not commanded yet."""

    def __init__(self, masks: MaskDistribution, horizon: int) -> None:
        self.masks = masks
        self.num_variables = masks.num_variables * horizon

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        first = self.masks.sample(n, generator)
        later = torch.zeros(n, self.num_variables - first.shape[1], dtype=torch.bool)
        return torch.cat([first, later], 1)


def operator_masks(action_dim: int, horizon: int, subsets: Sequence[Sequence[int]]) -> MaskDistribution:
    """The held dims to train for: one of `subsets`, or of all subsets with a uniform cardinality when it is empty."""
    evidence: MaskDistribution = (
        FixedMasks(subset_masks(action_dim, subsets)) if subsets else UniformCardinality(action_dim, 0, action_dim - 1)
    )
    return FirstStep(evidence, horizon) if horizon > 1 else evidence


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
