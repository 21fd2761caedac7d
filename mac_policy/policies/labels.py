"""Labels as variables of a policy: how training asks for them."""

from __future__ import annotations

import torch
from torch import Tensor

from mac_policy.core.training_draws import TrainingDraws, TrainingMasks, TrainingQueries

LABEL_WEIGHT = 0.02
"""Of a label that is asked for, in the loss of a row whose actions weigh 1 together. With more weight the classes of
training episodes are learned by heart: after 1500 steps on kitchen-intent the mean log-likelihood of held-out episodes
was -1.03 nats with 0.02 and -1.44 with 0.2."""


def draw_shown(n: int, labels: int, share: float, generator: torch.Generator | None) -> Tensor:
    """(n, L) bool: the labels that are evidence, each in a share of the rows."""
    return torch.rand((n, labels), generator=generator) < share


def with_labels(draws: TrainingDraws, shown: Tensor) -> TrainingDraws:
    """Draws over the variables of actions, with labels after them: those that are `shown` (n, L) are evidence, the
    others are asked for given the evidence that is there.

    Where a label is not shown, a set network answers the actions without it. A path network reads labels first: it
    answers those that are asked for before the actions, which then follow their values.
    """
    weights = torch.cat([draws.weights, LABEL_WEIGHT * (~shown).float()], 1)
    if isinstance(draws, TrainingMasks):
        return TrainingMasks(torch.cat([draws.evidence, shown], 1), weights, draws.mode)
    ranks, chunk = draws.ranks, draws.ranks.shape[1]
    asked = (~shown).long()
    queried = (ranks >= 0) & (ranks < chunk)
    moved = torch.where(queried, ranks + asked.sum(1, keepdim=True), ranks)
    moved = torch.where(ranks == chunk, chunk + shown.shape[1], moved)
    given = (ranks < 0).sum(1, keepdim=True)
    before = shown.long().flip(1).cumsum(1).flip(1)  # shown labels from this one on
    of_labels = torch.where(shown, -given - before, asked.cumsum(1) - 1)
    return TrainingQueries(torch.cat([moved, of_labels], 1), weights, draws.mode)
