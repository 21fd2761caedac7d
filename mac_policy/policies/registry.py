"""The kinds of policies by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from mac_policy.common.checks import check_choice
from mac_policy.common.settings import from_mapping
from mac_policy.policies.bc import BC, BCSettings
from mac_policy.policies.ibc import IBC, IBCSettings
from mac_policy.policies.mac import MAC, MACPaper, MACPaperSettings, MACSettings
from mac_policy.policies.mac_path import MACPath, MACPathSettings
from mac_policy.policies.policy import Policy
from mac_policy.policies.settings import PolicySettings
from mac_policy.policies.spaces import Spaces

POLICIES: dict[str, tuple[type[Policy], type[PolicySettings]]] = {
    "mac": (MAC, MACSettings),
    "mac_paper": (MACPaper, MACPaperSettings),
    "mac_path": (MACPath, MACPathSettings),
    "bc": (BC, BCSettings),
    "ibc": (IBC, IBCSettings),
}


def make_settings(kind: str, settings: Mapping[str, Any] | None = None) -> PolicySettings:
    """The settings of a kind of policy, checked."""
    settings_class = POLICIES[check_choice("policy", kind, POLICIES)][1]
    return from_mapping(settings_class, settings or {}, f"{kind} settings")


def make_policy(kind: str, spaces: Spaces, settings: Mapping[str, Any] | None = None, seed: int = 0) -> Policy:
    """An untrained policy with freshly drawn weights; the global random state is left as it was.

    >>> import gymnasium
    >>> box = gymnasium.spaces.Box(-1, 1, (3,))
    >>> make_policy("bc", Spaces.of(box, box), {"width": 8}).kind
    'bc'
    """
    chosen = make_settings(kind, settings)
    policy_class = POLICIES[kind][0]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return policy_class(spaces, chosen)
