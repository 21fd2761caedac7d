"""The calibration of an ensemble on the rows that its members have not been trained on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from mac_policy.rows.imputer.members import Ensemble, widened
from mac_policy.training.streams import stream

QUESTIONS = 16_384  # of all members
CELLS = 1_500_000  # of the rows that they are asked about
LEAST_SHARE = 0.1  # of the observed values that a question lacks, at least
LEVELS = (0.7, 0.8, 0.9, 0.95)
WIDENINGS = torch.logspace(-2, 1, 61, base=2)
OWN = 0.02  # price of a column's own factor, for the square of its logarithm relative to that of all columns
HEATS = torch.linspace(0.7, 3.0, 47)
FEWEST = 100  # values of a kind that a factor is fitted to, at least


class Questions(NamedTuple):
    """Values, evidence (M, B, N) and the queried variable (M, B), -1 for none. The second half of the questions of a
    member is the first half of those of the next one."""

    x: Tensor
    evidence: Tensor
    variable: Tensor


@torch.no_grad()
def calibrate(ensemble: Ensemble, rows: Tensor, held_out: Sequence[Tensor], seed: int) -> None:
    """Set `widening` and `heat` by the answers of each member for its held-out rows (R, N), NaN = missing.

    The second half of the held-out rows of a member is the first half of those of the next one (`training.split`).
    One observed value of a row is hidden and all others are shown, as when a missing value is imputed. The widening of
    a column is the one with which central intervals of the ensemble have the coverage nearest to their levels, near to
    that of all columns together; the heat is that of the highest likelihood.
    """
    asked = _questions(rows, held_out, seed)
    members, head = ensemble.members, ensemble.head[0]
    answers = members(head.features(torch.where(asked.evidence, asked.x, 0.0)), asked.evidence)
    chosen = (asked.variable[..., None] == members.numbers).to(asked.x)  # (M, B, C)
    counts = chosen.sum((0, 1))
    if int(counts.sum()) >= FEWEST:
        at = chosen.argmax(-1, keepdim=True)
        parts = [part.gather(2, at[..., None].expand(*at.shape, part.shape[-1]))[:, :, 0] for part in answers[:3]]
        truth = asked.x[..., members.numbers].gather(2, at)[..., 0]
        misses = [_misses(parts, truth, chosen, float(widening)) for widening in WIDENINGS]
        of_all, of_each = (torch.stack(each) for each in zip(*misses, strict=True))
        common = of_all.argmin()
        price = OWN * (WIDENINGS / WIDENINGS[common]).log().square()
        own = (of_each + price[:, None]).argmin(0)
        fitted = WIDENINGS[torch.where(counts >= FEWEST, own, common)]
        ensemble.widening[members.numbers] = fitted.to(ensemble.widening)
    found = [
        (logits[asked.variable == variable], asked.x[..., variable][asked.variable == variable].long())
        for (variable, _), logits in zip(members.categories, answers.classes, strict=True)
    ]
    if sum(len(truth) for _, truth in found) >= FEWEST:
        losses = torch.stack([_loss(found, float(heat)) for heat in HEATS])
        ensemble.heat.fill_(float(HEATS[losses.argmin()]))


def _questions(rows: Tensor, held_out: Sequence[Tensor], seed: int) -> Questions:
    """Questions about the held-out rows: of each row about one observed value after another, in random order."""
    generator = stream(seed, "calibration")
    members, half, variables = len(held_out), len(held_out[0]) // 2, rows.shape[1]
    blocks = [*(held[:half] for held in held_out), held_out[-1][half:]]
    count = max(1, min(half * variables, QUESTIONS // (2 * members), CELLS // (2 * members * variables)))
    turn = torch.arange(count) // half
    x = torch.stack([rows[block.repeat(-(-count // half))[:count]] for block in blocks]).double()
    observed = ~x.isnan()
    keys = torch.stack([torch.rand(len(block), variables, generator=generator) for block in blocks])
    keys = keys.repeat(1, -(-count // half), 1)[:, :count].masked_fill(~observed, torch.inf)
    variable = keys.argsort(-1).gather(-1, turn.expand(len(blocks), count)[..., None])[..., 0]
    there = observed.gather(-1, variable[..., None])[..., 0]
    lack = max(0.0, LEAST_SHARE - float(rows.isnan().double().mean()))
    shown = observed & (torch.rand(x.shape, generator=generator) >= lack)
    shown.scatter_(-1, variable[..., None], False)
    parts = (torch.where(observed, x, 0.0), shown, torch.where(there, variable, -1))
    return Questions(*(torch.cat([part[:-1], part[1:]], 1) for part in parts))


def _misses(parts: Sequence[Tensor], truth: Tensor, chosen: Tensor, widening: float) -> tuple[Tensor, Tensor]:
    """How far the coverage of central intervals of the ensemble is from their levels: of all columns () and of each
    one (C,). parts: the mixtures (M, B, K) of the values `truth` (M, B); chosen (M, B, C): 1 for the column of a value.

    The coverage of M members is that of one, plus 2 (1 - 1/M) times what a second member adds where neither has been
    trained on the row: the variance between members that a mixture of K has, and the part of their errors that its mean
    lacks, both grow with 1 - 1/K.
    """
    logits, means, log_stds = widened(parts, torch.tensor(widening, dtype=truth.dtype))
    below = (logits.exp() * torch.special.ndtr((truth[..., None] - means) / log_stds.exp())).sum(-1)
    members, half = len(below), below.shape[1] // 2
    covered, count = _covered(below, chosen), chosen.sum((0, 1))
    of_all, of_each = covered.sum(1) / count.sum(), covered / count.clamp_min(1)
    if members > 1:
        first, second, shared = below[1:, :half], below[:-1, half:], chosen[1:, :half]
        alone = (_covered(first, shared) + _covered(second, shared)) / 2
        more = 2 * (1 - 1 / members) * (_covered((first + second) / 2, shared) - alone)
        count = shared.sum((0, 1)).clamp_min(1)
        of_all, of_each = of_all + more.sum(1) / count.sum(), of_each + more / count
    levels = torch.tensor(LEVELS, dtype=truth.dtype)
    return (of_all - levels).square().sum(), (of_each - levels[:, None]).square().sum(0)


def _covered(below: Tensor, chosen: Tensor) -> Tensor:
    """(L, C) for each level, the number of values of a column that lie within its central interval; below (M, B): how
    much of the distribution lies below each value."""
    inside = torch.stack([(below - 0.5).abs() <= level / 2 for level in LEVELS])
    return torch.einsum("lmb,mbc->lc", inside.to(chosen), chosen)


def _loss(found: Sequence[tuple[Tensor, Tensor]], heat: float) -> Tensor:
    return -torch.cat(
        [(logits / heat).log_softmax(-1).gather(1, truth[:, None])[:, 0] for logits, truth in found]
    ).mean()
