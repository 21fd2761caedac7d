"""The calibration of an ensemble on the rows that its members have not been trained on."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mac_policy.rows.imputer.members import Ensemble, widened
from mac_policy.training.streams import stream

QUESTIONS = 16_384  # of all members
LEAST_SHARE = 0.1  # of the observed values that are hidden, at least
LEVELS = (0.5, 0.8, 0.9, 0.95)
WIDENINGS = torch.logspace(-2, 1, 61, base=2)
OWN = 0.05  # price of a column's own factor, for the square of its logarithm relative to that of all columns
HEATS = torch.linspace(0.7, 3.0, 47)
LEAST_SHRINK = 0.25  # of a variance, for what members disagree about
FEWEST = 100  # values of a kind that a factor is fitted to, at least


@torch.no_grad()
def calibrate(ensemble: Ensemble, rows: Tensor, held_out: Sequence[Tensor], seed: int) -> None:
    """Set `widening` and `heat` by the answers of each member for its own held-out rows (R, N), NaN = missing.

    Values are hidden as often as they are missing. The widening of a column is the one whose central intervals have
    the coverage nearest to their levels, near to that of all columns together, less what the members disagree about;
    the heat is that of the highest likelihood.
    """
    x, evidence, query = _questions(rows, held_out, seed)
    members, head = ensemble.members, ensemble.head[0]
    answers = members(head.features(torch.where(evidence, x, 0.0)), evidence)
    asked = query[..., members.numbers]
    if int(asked.sum()) >= FEWEST:
        truth = x[..., members.numbers]
        misses = [_misses(answers[:3], truth, asked, float(widening)) for widening in WIDENINGS]
        of_all, of_each = (torch.stack(each) for each in zip(*misses, strict=True))
        common = of_all.argmin()
        price = OWN * (WIDENINGS / WIDENINGS[common]).log().square()
        own = (of_each + price[:, None]).argmin(0)
        enough = asked.flatten(0, 1).sum(0) >= FEWEST
        ensemble.widening[members.numbers] = WIDENINGS[torch.where(enough, own, common)].to(ensemble.widening)
        ensemble.widening[members.numbers] *= _narrowing(ensemble, x, evidence, asked)
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


def _misses(parts: Sequence[Tensor], truth: Tensor, asked: Tensor, widening: float) -> tuple[Tensor, Tensor]:
    """How far the coverage of central intervals is from their levels: of all columns () and of each one (C,)."""
    _, means, log_stds = stretched = widened(parts, torch.tensor(widening, dtype=truth.dtype))
    below = (stretched[0].exp() * torch.special.ndtr((truth[..., None] - means) / log_stds.exp())).sum(-1)
    inside = torch.stack([(below - 0.5).abs() <= level / 2 for level in LEVELS]) & asked
    levels, count = torch.tensor(LEVELS, dtype=truth.dtype), asked.flatten(0, 1).sum(0)
    covered = inside.flatten(1, 2).sum(1).to(truth.dtype)  # (L, C)
    of_each = (covered / count.clamp_min(1) - levels[:, None]).square().sum(0)
    return (covered.sum(1) / count.sum() - levels).square().sum(), of_each


def _narrowing(ensemble: Ensemble, x: Tensor, evidence: Tensor, asked: Tensor) -> Tensor:
    """The factor (C,) of the widening that makes up for the mixture of members that are calibrated one by one.

    With a variance s^2 of a member and v between the members' means, the mixture has s^2 + v. Its mean lacks most of
    the error that each member has for itself, whose variance is v: the mixture should have s^2 - v.
    """
    members, head, factor = ensemble.members, ensemble.head[0], ensemble.widening[ensemble.members.numbers]
    rows, seen = x.flatten(0, 1).expand(members.count, -1, -1), evidence.flatten(0, 1).expand(members.count, -1, -1)
    answers = members(head.features(torch.where(seen, rows, 0.0)), seen)
    logits, means, log_stds = widened(answers[:3], factor)
    center = (logits.exp() * means).sum(-1)
    each = (logits.exp() * (means.square() + (2 * log_stds).exp())).sum(-1) - center.square()
    share = (center.var(0, correction=0) / each.mean(0)).masked_fill(~asked.flatten(0, 1), torch.nan)
    found: Tensor = (1 - 2 * share.nanmedian(0).values.nan_to_num(0.0)).clamp_min(LEAST_SHRINK).sqrt()
    return found


def _loss(found: Sequence[tuple[Tensor, Tensor]], heat: float) -> Tensor:
    return -torch.cat(
        [(logits / heat).log_softmax(-1).gather(1, truth[:, None])[:, 0] for logits, truth in found]
    ).mean()
