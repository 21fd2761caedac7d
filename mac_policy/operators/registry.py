"""The kinds of operators by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mac_policy.common.checks import check_choice
from mac_policy.operators.dims import OperatorDims
from mac_policy.operators.operator import Operator, PolicyOperator, ReplayOperator, ZeroOperator
from mac_policy.operators.sb3 import SB3Operator
from mac_policy.operators.spoilers import DropoutOperator, LaggyOperator, NoisyOperator
from mac_policy.policies.checkpoint import load_policy
from mac_policy.policies.policy import Policy

ExpertFactory = Callable[[OperatorDims], Operator]
"""Makes the scripted expert for the environments it acts in, which the library does not know."""
WRAPPED = ("noisy", "laggy", "dropout")
OPERATORS = ("bc", "expert", *WRAPPED, "zeros", "replay", "sb3")


def make_operator(
    kind: str,
    dims: OperatorDims,
    batch: int = 1,
    *,
    policy: Policy | str | Path | None = None,
    expert: ExpertFactory | None = None,
    model: Any = None,
    actions: NDArray[np.floating] | Sequence[NDArray[np.floating]] | None = None,
    inner: str = "bc",
    p: float = 0.3,
    space: spaces.Box | None = None,
) -> Operator:
    """An operator of `batch` environments.

    bc: `policy` (of any kind, or its folder); expert: `expert`; sb3: `model` (or its checkpoint); replay:
    `actions`; noisy, laggy, dropout: the operator named by `inner`, changed with probability `p` (noisy draws
    from `space`).

    >>> make_operator("zeros", OperatorDims.parse(1, action_dim=2)).reset()
    """
    check_choice("operator", kind, OPERATORS)
    if kind in WRAPPED:
        check_choice("inner operator", inner, [name for name in OPERATORS if name not in WRAPPED])
        whole = make_operator(inner, dims, batch, policy=policy, expert=expert, model=model, actions=actions)
        if kind == "noisy":
            return NoisyOperator(whole, p, _needed(space, kind, "space", "the action space"))
        return {"laggy": LaggyOperator, "dropout": DropoutOperator}[kind](whole, p)
    if kind == "bc":
        policy = _needed(policy, kind, "policy", "a policy or its folder")
        return PolicyOperator(policy if isinstance(policy, Policy) else load_policy(policy), dims, batch)
    if kind == "expert":
        factory: ExpertFactory = _needed(expert, kind, "expert", "a function that makes it for its environments")
        return factory(dims)
    if kind == "sb3":
        return SB3Operator(_needed(model, kind, "model", "a model or its checkpoint"), dims, batch)
    if kind == "replay":
        return ReplayOperator(_needed(actions, kind, "actions", "recorded actions"), dims, batch)
    return ZeroOperator(dims, batch)


def _needed(value: Any, kind: str, name: str, what: str) -> Any:
    if value is None:
        raise ValueError(f"a {kind!r} operator needs {name}: {what}")
    return value
