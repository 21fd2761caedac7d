"""The kinds of policies by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import torch

from mac_policy.common.checks import check_count, check_instance
from mac_policy.common.folders import limited
from mac_policy.common.registry import Registry
from mac_policy.common.settings import from_mapping
from mac_policy.policies.bc import BC
from mac_policy.policies.ibc import IBC
from mac_policy.policies.mac import MAC, MACPaper, MACPath
from mac_policy.policies.policy import Policy
from mac_policy.policies.settings import PolicySettings
from mac_policy.policies.spaces import Spaces

P = TypeVar("P", bound=type[Policy])


def check_policy_class(policy_class: Any) -> None:
    """ValueError unless this is a subclass of `Policy` with a name and settings."""
    if not (isinstance(policy_class, type) and issubclass(policy_class, Policy)):
        raise ValueError(f"a kind of policy must be a subclass of mac_policy.Policy, got {policy_class!r}")
    for name in ("kind", "settings_class"):
        if not hasattr(policy_class, name):
            raise ValueError(f"{policy_class.__name__} must define the class attribute {name!r}")


POLICIES: Registry[type[Policy]] = Registry("policy", "mac_policy.policies", check_policy_class)
"""Every kind of policy by its name, `Policy.kind`."""


def register_policy(policy_class: P) -> P:
    """Register a class under its `kind`, from which `make_policy` and `load_policy` build it; also a decorator.

    A saved policy stores its kind: register a class of your own before its policies are loaded. Registering a class
    twice changes nothing.

    >>> from mac_policy.policies.bc import BC
    >>> register_policy(BC).kind
    'bc'
    """
    check_policy_class(policy_class)
    POLICIES.register(policy_class.kind, policy_class)
    return policy_class


for _built_in in (MAC, MACPaper, MACPath, BC, IBC):
    register_policy(_built_in)


def find_policy(kind: str) -> type[Policy]:
    """The class of a kind that a user typed: a registered name, an entry point or ``module:attribute``, which is
    imported."""
    return register_policy(POLICIES.find(kind))


def make_settings(kind: str, settings: Mapping[str, Any] | None = None) -> PolicySettings:
    """The checked settings of a kind of policy."""
    found = find_policy(kind)
    return from_mapping(found.settings_class, settings or {}, f"{found.kind} settings")


def make_policy(kind: str, spaces: Spaces, settings: Mapping[str, Any] | None = None, seed: int = 0) -> Policy:
    """An untrained policy with weights drawn from `seed`; the global random state is left as it was.

    kind: a registered name, an entry point of the group ``mac_policy.policies``, or ``module:Class``

    >>> import gymnasium
    >>> box = gymnasium.spaces.Box(-1, 1, (3,))
    >>> make_policy("bc", Spaces.of(box, box), {"width": 8}).kind
    'bc'
    """
    check_instance("spaces", spaces, Spaces)
    chosen = make_settings(kind, settings)
    check_count("seed", seed, 0)
    with torch.random.fork_rng(), limited(None, f"a {kind} policy with these settings"):
        torch.manual_seed(seed)
        return find_policy(kind)(spaces, chosen)
