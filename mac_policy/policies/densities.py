"""Densities of a MAC: p(any dims | any others, labels, observation), in the units of the action space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from mac_policy.common.labels import is_said
from mac_policy.common.numeric import as_numbers
from mac_policy.policies import inputs
from mac_policy.policies.said import label_values

if TYPE_CHECKING:
    from mac_policy.policies.mac import MAC

Masks = tuple[NDArray[np.bool_], NDArray[np.bool_]]


def log_prob(
    policy: MAC, obs: ArrayLike, action: ArrayLike, query: ArrayLike | None, given: ArrayLike | None, labels: Any
) -> NDArray[np.float64]:
    """See `MAC.log_prob`."""
    history = policy.settings.history
    observations, _ = inputs.rows(obs, policy.observation_dim, history)
    if observations.ndim == 2:
        observations = np.repeat(observations[:, None], history, axis=1)
    asked, known = _masks(policy, query, given, len(observations))
    actions = inputs.fitted("action", as_numbers("action", action).astype(np.float32), len(known), policy.spaces.action)
    if not np.isfinite(actions[known | asked]).all():
        raise ValueError("the action holds NaN or infinity in dims that are given or queried")
    variables, device, first = policy.variables, policy.device, slice(0, policy.action_dim)
    with torch.inference_mode():
        seen = torch.from_numpy(observations).to(device)
        context = policy.normalizer.observations(seen).flatten(1)
        x = torch.zeros(len(actions), len(variables), device=device)
        mean, std = variables.mean[first], variables.std[first]
        x[:, first] = (torch.tensor(np.where(known | asked, actions, 0.0)).to(device) - mean) / std
        masks = torch.zeros(2, *x.shape, dtype=torch.bool, device=device)
        masks[0, :, first], masks[1, :, first] = torch.from_numpy(asked), torch.from_numpy(known)
        if variables.labels:
            said = torch.from_numpy(policy.said(labels, len(actions))).to(device)
            x[:, variables.chunk :] = label_values(policy.labels, said, policy.normalizer).to(x)
            masks[1, :, variables.chunk :] = is_said(policy.labels, said)
        found = policy.honest.log_prob(
            x,
            query=masks[0],
            given=masks[1],
            factorization=policy.factorization,
            context=context,
            frame=policy.frame(seen[:, -1]),
        ).double()
        result: NDArray[Any] = (found - (masks[0, :, first] * std.log().double()).sum(1)).cpu().numpy()
    return result


def _masks(policy: MAC, query: ArrayLike | None, given: ArrayLike | None, n: int) -> Masks:
    space = policy.spaces.action
    known = np.zeros((n, policy.action_dim), bool) if given is None else inputs.truths("given", given, n, space)
    asked = ~known if query is None else inputs.truths("query", query, n, space)
    if (both := known & asked).any():
        raise ValueError(f"dims {np.unique(np.nonzero(both)[1]).tolist()} are both given and queried")
    return asked.copy(), known.copy()
