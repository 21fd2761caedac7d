"""The evidence that the Imputer's networks are trained on."""

from __future__ import annotations

import math

import torch

from mac_policy.core import UniformOrder
from mac_policy.core.subsets import draw_below, uniform_subsets
from mac_policy.core.training_draws import TrainingMasks, uniform_over

FEW = 0.3  # of the variables


class MostlyKnown(UniformOrder):
    """Random orders. Half of the training masks lack at most 30% of the variables: most rows of a table are observed
    for the most part, and what is imputed is p(one variable | nearly all others).

    >>> from mac_policy.rows.imputer.law import MostlyKnown
    >>> MostlyKnown(10).training_masks(4).evidence.shape
    torch.Size([4, 10])
    """

    def __repr__(self) -> str:
        return f"MostlyKnown({self.num_variables})"

    def training_masks(self, n: int, generator: torch.Generator | None = None) -> TrainingMasks:
        any_number = draw_below(torch.full((n,), self.num_variables), generator)
        few = torch.full((n,), max(1, math.ceil(FEW * self.num_variables)))
        many = self.num_variables - 1 - draw_below(few, generator)
        seen = torch.where(torch.rand(n, generator=generator) < 0.5, many, any_number)
        evidence = uniform_subsets(seen, self.num_variables, generator)
        return TrainingMasks(evidence, uniform_over(~evidence))
