"""Labels as variables of a policy: how training asks for them."""

from __future__ import annotations

import torch
from torch import Tensor

from mac_policy.core.training_draws import TrainingDraws, TrainingMasks, TrainingQueries

LABEL_WEIGHT = 0.02
"""Of a label that is asked for, in the loss of a row whose actions weigh 1 together. With more weight the classes of
training episodes are learned by heart: after 1500 steps on kitchen-intent the mean log-likelihood of held-out episodes
was -1.03 nats with 0.02 and -1.44 with 0.2."""
SHOWN, ASKED, ABSENT = 0, 1, 2


def draw_roles(n: int, labels: int, share: float, generator: torch.Generator | None) -> Tensor:
    """(n, L): `SHOWN` in a share of the rows; of the others one half is `ASKED` for, the other `ABSENT`."""
    level = torch.rand((n, labels), generator=generator)
    return (level >= share).long() + (level >= (1 + share) / 2).long()


def with_labels(draws: TrainingDraws, roles: Tensor) -> TrainingDraws:
    """Draws over the variables of actions, with labels (n, L) after them. A label that is shown is evidence; one that
    is asked for is answered given the evidence that is there; an absent one has no part in a path network's row.

    A set network answers all variables of a row that are no evidence at once, the actions without a label that is not
    shown among them: there an absent label is asked for, too. A path network answers the labels that are asked for
    before the actions, which then follow their values.
    """
    shown = roles == SHOWN
    if isinstance(draws, TrainingMasks):
        weights = torch.cat([draws.weights, LABEL_WEIGHT * (~shown).float()], 1)
        return TrainingMasks(torch.cat([draws.evidence, shown], 1), weights, draws.mode)
    ranks, chunk, asked = draws.ranks, draws.ranks.shape[1], (roles == ASKED).long()
    queried = (ranks >= 0) & (ranks < chunk)
    moved = torch.where(queried, ranks + asked.sum(1, keepdim=True), ranks)
    nothing = chunk + roles.shape[1]
    moved = torch.where(ranks == chunk, nothing, moved)
    given = (ranks < 0).sum(1, keepdim=True)
    before = shown.long().flip(1).cumsum(1).flip(1)  # shown labels from this one on
    of_labels = torch.where(shown, -given - before, torch.where(asked > 0, asked.cumsum(1) - 1, nothing))
    weights = torch.cat([draws.weights, LABEL_WEIGHT * asked.float()], 1)
    return TrainingQueries(torch.cat([moved, of_labels], 1), weights, draws.mode)
