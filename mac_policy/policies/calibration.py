"""How far a MAC's densities can be believed: spreads and the test of plans are fitted to rows that were held out, and
the coverage of intervals is measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mac_policy.core.heads.continuous import MixtureConditional
from mac_policy.core.heads.mixed import real_part
from mac_policy.core.heads.widened import Widened
from mac_policy.core.model import AnyOrderModel
from mac_policy.core.training_draws import known_and_weights
from mac_policy.policies import decoding, following
from mac_policy.policies.labels import draw_roles, with_labels

if TYPE_CHECKING:
    from mac_policy.policies.data import Batch
    from mac_policy.policies.mac import MAC

PERCENTS = (50, 90)
"""Of the intervals whose coverage is measured."""


def fit_spreads(policy: MAC, answers: Sequence[tuple[MAC, Batch]]) -> None:
    """Fit the spreads of the honest model to the answers of several policies, each for rows that it was not trained
    on."""
    _widen(policy.widened, answers, range(policy.variables.chunk))
    if policy.widened_labels is not None:
        _widen(policy.widened_labels, answers, policy.numbers)


def fit_plan_tests(policy: MAC, answers: Sequence[tuple[MAC, Batch]]) -> None:
    """Fit by how much a plan may make a command less likely; the spreads are those of `policy`."""
    for answering, _ in answers:
        answering.widened.load_state_dict(policy.widened.state_dict())
    tests = [following.tests_of_own_plans(answering, batch) for answering, batch in answers]
    lost, surprise = (torch.cat(parts).double() for parts in zip(*tests, strict=True))
    if len(lost):  # otherwise nothing can be commanded in part
        policy.plan_margin.fill_(lost.quantile(following.PLANS_KEPT).clamp(min=0.0))
        policy.plan_floor.fill_(surprise.quantile(1 - following.PLANS_KEPT))


def coverage(policy: MAC, batch: Batch) -> dict[int, NDArray[np.float64]]:
    """See `Policy.coverage`."""
    shares = []
    for variables in filter(len, (range(policy.variables.chunk), policy.numbers)):
        found, asked, x = _answers(policy, policy.honest, batch, variables)
        level = decoding.cdf(found, x)
        within = torch.stack([(level - 0.5).abs() <= percent / 200 for percent in PERCENTS])
        shares.append((within & asked).sum(1) / asked.sum(0))
    return dict(zip(PERCENTS, torch.cat(shares, 1).cpu().numpy(), strict=True))


def _widen(widened: Widened, answers: Sequence[tuple[MAC, Batch]], variables: range) -> None:
    """Fit the spreads of some variables to the answers of several policies."""
    found, values, asked = [], [], []
    for policy, batch in answers:
        base, wanted, x = _answers(policy, policy.honest_base, batch, variables)
        found.append(base)
        asked.append(wanted)
        values.append(x)
    widened.fit(_joined(found), torch.cat(values), torch.cat(asked))


def _answers(
    policy: MAC, model: AnyOrderModel, batch: Batch, variables: range
) -> tuple[MixtureConditional, Tensor, Tensor]:
    """Conditionals of these variables, of the actions or the labels of real values, in rows with an operator, then,
    if the policy trains for it, in the same rows without one; which of them are asked for; and the values."""
    x, context, frame = policy._read(batch.observations, batch.targets, batch.labels)
    generator, found, asked = torch.Generator().manual_seed(0), [], []
    known = policy.variables.have_values(batch.inside, batch.labels)
    columns, family = slice(variables.start, variables.stop), 0 if variables.start == 0 else -1
    for paths in (policy._trained, policy.alone):
        if paths is None:
            continue
        draws = policy.model.asking.draw(paths, len(x), generator)
        if policy.variables.labels:
            roles = draw_roles(len(x), len(policy.variables.labels), policy.settings.label_shown, generator)
            draws = with_labels(draws, roles)
        draws = type(draws)(*known_and_weights(draws.to(x.device), x, ~known, False), None)
        found.append(real_part(model.answers(x, draws, context, frame), len(variables), family))
        asked.append((draws.weights > 0)[:, columns])
    return _joined(found), torch.cat(asked), x[:, columns].repeat(len(found), 1)


def _joined(found: Sequence[MixtureConditional]) -> MixtureConditional:
    parts = (torch.cat([getattr(c, name) for c in found]) for name in ("log_weights", "means", "log_stds"))
    return MixtureConditional(*parts)
