"""The calibration of an ensemble on the rows that its members have not been trained on."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mac_policy.rows.imputer.members import Ensemble
from mac_policy.training.streams import stream

QUESTIONS = 8192  # of all members
LEAST_SHARE = 0.1  # of the observed values that are hidden, at least
LEVELS = (0.5, 0.8, 0.9, 0.95)
WIDENINGS = torch.linspace(1.0, 2.0, 41)
HEATS = torch.linspace(0.7, 3.0, 47)
FEWEST = 100  # values of a kind that a factor is fitted to, at least


@torch.no_grad()
def calibrate(ensemble: Ensemble, rows: Tensor, held_out: Sequence[Tensor], seed: int) -> None:
    """Set `widening` and `heat` by the answers of each member for its own held-out rows (R, N), NaN = missing.

    Values are hidden as often as they are missing. The widening is the one whose central intervals have the coverage
    nearest to their levels, the heat that of the highest likelihood.
    """
    x, evidence, query = _questions(rows, held_out, seed)
    members, head = ensemble.members, ensemble.head[0]
    answers = members(head.features(torch.where(evidence, x, 0.0)), evidence)
    asked = query[..., members.numbers]
    if int(asked.sum()) >= FEWEST:
        truth = x[..., members.numbers][asked]
        parts = [part[asked] for part in answers[:3]]
        misses = torch.stack([_miss(parts, truth, float(widening)) for widening in WIDENINGS])
        ensemble.widening.fill_(float(WIDENINGS[misses.argmin()]))
    found = [
        (logits[query[..., variable]], x[..., variable][query[..., variable]].long())
        for (variable, _), logits in zip(members.categories, answers.classes, strict=True)
    ]
    if sum(len(truth) for _, truth in found) >= FEWEST:
        losses = torch.stack([_loss(found, float(heat)) for heat in HEATS])
        ensemble.heat.fill_(float(HEATS[losses.argmin()]))


def _questions(rows: Tensor, held_out: Sequence[Tensor], seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Values, evidence and query (M, B, N): held-out rows of each member with some of their observed values hidden."""
    generator = stream(seed, "calibration")
    count = max(1, QUESTIONS // (len(held_out) * rows.shape[1]))
    chosen = [held.repeat(-(-count // len(held)))[:count] for held in held_out]
    x = torch.stack([rows[each] for each in chosen]).double()
    observed = ~x.isnan()
    share = max(LEAST_SHARE, float(rows.isnan().double().mean()))
    hidden = observed & (torch.rand(x.shape, generator=generator) < share)
    return torch.where(observed, x, 0.0), observed & ~hidden, hidden


def _miss(parts: Sequence[Tensor], truth: Tensor, widening: float) -> Tensor:
    logits, means, log_stds = parts
    weights = logits.exp()
    center = (weights * means).sum(-1, keepdim=True)
    places = (truth[:, None] - center - widening * (means - center)) / (widening * log_stds.exp())
    below = (weights * torch.special.ndtr(places)).sum(-1)
    off = (below - 0.5).abs()
    return torch.stack([((off <= level / 2).double().mean() - level).square() for level in LEVELS]).sum()


def _loss(found: Sequence[tuple[Tensor, Tensor]], heat: float) -> Tensor:
    return -torch.cat(
        [(logits / heat).log_softmax(-1).gather(1, truth[:, None])[:, 0] for logits, truth in found]
    ).mean()
