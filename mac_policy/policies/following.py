"""A command during a chunk: the rest of the plan in progress is evidence for the present step, and is dropped when it
and the command contradict each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mac_policy.common.labels import Codes
from mac_policy.core.frame import Frame
from mac_policy.core.networks import TrunkQuery
from mac_policy.policies import inputs, quick_trunk
from mac_policy.policies.operator_masks import operator_masks
from mac_policy.policies.request import Request
from mac_policy.policies.stepping import evidence

if TYPE_CHECKING:
    from mac_policy.policies.data import Batch
    from mac_policy.policies.mac import MAC

PLANS_KEPT = 0.99
"""Share of the steps of a demonstration in which each of the two tests keeps its own next steps as a plan."""


def follow(
    policy: MAC,
    observations: NDArray[np.float32],
    held: inputs.Commanded,
    ahead: NDArray[np.float32],
    request: Request,
    assumed: Codes | None,
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """See `Policy.follow`."""
    with torch.inference_mode():
        seen, rest = (torch.from_numpy(part).to(policy.device) for part in (observations, ahead))
        later, context, frame = policy._read(seen, rest.nan_to_num())
        values, known = evidence(policy, held, len(seen), assumed)
        first = torch.arange(len(policy.variables), device=values.device) < policy.action_dim
        commanded, said = known & first, known & ~first
        planned = torch.zeros_like(known)
        planned[:, : policy.variables.chunk] = rest.isfinite().flatten(1)
        planned[:, : policy.action_dim] = False
        values = torch.where(planned, later, values)
        is_quick = policy._is_quick(len(seen)) and policy.settings.decode != "best"
        if is_quick and quick_trunk.suits(policy.model.network):
            densities = _densities_one(policy, values, commanded, said, planned, context, frame)
        else:
            densities = _densities(policy, values, commanded, said, planned, context, frame)
        lost, surprise = _tests(*densities, commanded)
        agrees = (lost <= policy.plan_margin) & (surprise >= policy.plan_floor)
        present = seen.new_full((len(seen), policy.action_dim), torch.nan)
        if bool(agrees.any()):
            kept, given = request.rows(agrees), (known | planned)[agrees]
            frame = None if frame is None else frame.rows(agrees)
            filled = policy._filled(context[agrees], values[agrees], given, kept, frame, 1, policy.settings.decode)
            present[agrees] = policy.variables.decode(filled.float(), seen[agrees, -1])[:, 0]
    return present.cpu().numpy(), agrees.cpu().numpy()


def tests_of_own_plans(policy: MAC, batch: Batch) -> tuple[Tensor, Tensor]:
    """The two tests (B,) each, with a step of a demonstration as the command and its own next steps as the plan."""
    x, context, frame = policy._read(batch.observations, batch.targets, batch.labels)
    chunk, generator = policy.variables.chunk, torch.Generator().manual_seed(0)
    masks = operator_masks(policy.action_dim, policy.settings.horizon, policy.subsets, 1.0)
    known = policy.variables.have_values(batch.inside, batch.labels)
    drawn = torch.zeros_like(known)
    drawn[:, :chunk] = masks.sample(len(x), generator).to(x.device)
    commanded = drawn & (torch.arange(len(policy.variables), device=x.device) < policy.action_dim)
    said = known & (torch.arange(len(policy.variables), device=x.device) >= chunk)
    some = commanded.any(1)
    without, following = _densities(policy, x, commanded, said, drawn & ~commanded & known, context, frame)
    return _tests(without[some], following[some], commanded[some])


def _densities(
    policy: MAC, x: Tensor, commanded: Tensor, said: Tensor, planned: Tensor, context: Tensor, frame: Frame | None
) -> tuple[Tensor, Tensor]:
    """(B,) each: log p(command | observation, labels said) and log p(command | observation, labels said, plan)."""
    found = policy.honest.log_prob(
        x.repeat_interleave(2, 0),
        query=commanded.repeat_interleave(2, 0),
        given=torch.stack([said, said | planned], 1).flatten(0, 1),
        factorization=policy.factorization,
        context=context,
        frame=None if frame is None else frame.repeat(2),
        rows_per_context=2,
    )
    without, following = found.unflatten(0, (-1, 2)).unbind(1)
    return without, following


def _densities_one(
    policy: MAC, x: Tensor, commanded: Tensor, said: Tensor, planned: Tensor, context: Tensor, frame: Frame | None
) -> tuple[Tensor, Tensor]:
    """The quick form for one row."""
    honest, sums = cast(TrunkQuery, policy.honest.network), []
    dims = [dim for dim in policy.variables.action_order[: policy.action_dim] if commanded[0, dim]]
    for given in (said, said | planned):
        reader = policy.begin(honest, context)
        quick_trunk.see_given(reader, x[0].tolist(), given[0].tolist())
        sums.append(reader.sum)
    densities = quick_trunk.Densities(policy.honest_mixture, policy.widened, frame)
    without, following = densities.along(reader, np.stack(sums), dims, x[0].numpy())
    return torch.tensor([without]), torch.tensor([following])


def _tests(without: Tensor, following: Tensor, commanded: Tensor) -> tuple[Tensor, Tensor]:
    """By how much the plan makes the command less likely, and the command's log-density a dim given the plan."""
    return without - following, following / commanded.sum(1).clamp(min=1)
