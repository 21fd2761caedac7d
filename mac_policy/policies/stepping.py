"""From what a policy has seen, what is commanded and what is said to the next plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor

from mac_policy.common.labels import Codes, is_said, unsaid
from mac_policy.policies import inputs
from mac_policy.policies.request import Request
from mac_policy.policies.said import label_values
from mac_policy.policies.state import PolicyState

if TYPE_CHECKING:
    from mac_policy.policies.policy import Policy


def assume(
    policy: Policy,
    state: PolicyState,
    observations: NDArray[np.float32],
    held: inputs.Commanded | None,
    labels: Any,
    request: Request,
) -> tuple[Codes | None, tuple[NDArray[np.float64], ...]]:
    """What is assumed of each label (b, L), and the beliefs about those that are inferred."""
    if not policy.labels and labels is None:
        return None, ()
    codes = policy.said(labels, len(observations))
    beliefs = policy.infer(state, observations, held, codes)
    if not beliefs:
        return codes, ()
    inferred = unsaid(policy.labels, len(codes))
    before = inferred
    if state.assumed is not None and state.listening is not None:
        before = np.where(state.listening[:, None], state.assumed, inferred)
    decided = [policy.decide(believed, before[:, i].astype(np.int64), request) for i, believed in enumerate(beliefs)]
    inferred[:, : len(decided)] = np.stack(decided, 1)
    return np.where(is_said(policy.labels, codes), codes, inferred), beliefs


def ahead(policy: Policy, state: PolicyState, rows: NDArray[np.bool_]) -> NDArray[np.float32]:
    """(b, horizon, act): the planned steps from the present one on, NaN beyond those that are carried out."""
    plan, age = state.plan[rows], state.age[rows]
    steps = age[:, None] + np.arange(policy.settings.horizon)
    kept = plan[np.arange(len(plan))[:, None], np.minimum(steps, policy.settings.horizon - 1)]
    return np.where((steps < policy.settings.execute)[..., None], kept, np.nan).astype(np.float32)


def planned(
    policy: Policy,
    observations: NDArray[np.float32],
    held: inputs.Commanded | None,
    request: Request,
    assumed: Codes | None = None,
) -> NDArray[Any]:
    """(b, history, obs) -> (b, horizon, act), targets as `Variables.targets` returns them."""
    device, n = policy.device, len(observations)
    with torch.inference_mode():
        seen = torch.from_numpy(observations).to(device)
        context, present = policy.normalizer.observations(seen).flatten(1), seen[:, -1]
        if assumed is not None:
            context = policy.with_inputs(context, torch.from_numpy(assumed).to(device))
        values, given = evidence(policy, held, n, assumed)
        plan = policy.plan(context, values, given, request, *policy.frames(present))
        targets = policy.variables.decode(plan.float(), present)
    return targets.cpu().numpy()


def evidence(
    policy: Policy, held: inputs.Commanded | None, n: int, assumed: Codes | None = None
) -> tuple[Tensor, Tensor]:
    """Normalised values (n, variables) of what is commanded and assumed, and where (n, variables)."""
    variables, device = policy.variables, policy.device
    seen = np.zeros((n, len(variables)), bool)
    values = np.zeros((n, len(variables)), np.float32)
    if held is not None:
        first = slice(0, policy.action_dim)
        mean, std = (part[first].cpu().numpy() for part in (variables.mean, variables.std))
        seen[:, first] = held.mask
        np.copyto(values[:, first], (held.command - mean) / std, where=held.mask, casting="unsafe")
    if variables.labels and assumed is not None:
        seen[:, variables.chunk :] = is_said(policy.labels, assumed)
        told = label_values(policy.labels, torch.from_numpy(assumed).to(device), policy.normalizer)
        values[:, variables.chunk :] = told.cpu().numpy()
    return torch.from_numpy(values).to(device), torch.from_numpy(seen).to(device)


def merge(space: spaces.Box, filled: NDArray[Any], held: inputs.Commanded | None) -> NDArray[Any]:
    """Actions (n, act) inside the space; dims that are held return the command bit for bit."""
    filled = np.clip(filled.astype(space.dtype, copy=False), space.low, space.high)
    return filled if held is None else np.where(held.mask, held.command, filled)


def remember(policy: Policy, state: PolicyState, observations: NDArray[np.float32]) -> NDArray[np.float32]:
    """(b, history, obs): the last observations with the present one (b, obs), which fills those of a fresh row."""
    if policy.settings.history == 1:
        return observations[:, None]
    moved = np.concatenate([state.history[:, 1:], observations[:, None]], axis=1)
    return np.where(state.fresh[:, None, None], observations[:, None], moved)


def previous(policy: Policy, state: PolicyState, observations: NDArray[np.float32]) -> Tensor | None:
    """(b, act): the normalised actions of the step before, NaN in fresh rows; None where all rows are fresh."""
    if state.fresh.all():
        return None
    last = state.plan[np.arange(len(state)), np.maximum(state.age - 1, 0)]
    last = np.where(state.fresh[:, None], np.nan, policy.variables.actions(observations, last)).astype(np.float32)
    mean, std = (part[: policy.action_dim] for part in (policy.variables.mean, policy.variables.std))
    return (torch.from_numpy(last).to(policy.device) - mean) / std
