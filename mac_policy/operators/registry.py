"""The kinds of operators by name. A kind is a frozen dataclass of an operator's settings, which makes the operator."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mac_policy.common.actions import Actions
from mac_policy.common.checks import check_instance
from mac_policy.common.digest import modules_sha256
from mac_policy.common.registry import Registry
from mac_policy.common.settings import Settings, from_mapping
from mac_policy.operators.dims import OperatorDims
from mac_policy.operators.operator import Operator
from mac_policy.policies.checkpoint import load_policy
from mac_policy.policies.policy import Policy

ExpertFactory = Callable[..., Operator]
"""Makes the scripted expert of a task from the dims that it holds, for the environments in which it acts; tasks bring
theirs. Some experts take `cooperative` and `changes_mind`."""


class Recording(NamedTuple):
    """A recorded episode of T steps."""

    observations: NDArray[np.float32]
    """(T, obs)"""
    actions: NDArray[np.float32]
    """(T, n)"""
    wishes: tuple[str | None, ...] = ()
    """(T,): what was done next, where that is known."""
    completed: tuple[str, ...] = ()
    """What was completed, in order."""


class Resources(NamedTuple):
    """What a measurement offers the operator that acts in it; None where it does not have something."""

    space: spaces.Box | None = None
    """The action space."""
    policy: Policy | None = None
    """The trained policy of the operator."""
    expert: ExpertFactory | None = None
    environments: Sequence[gymnasium.Env[Any, Any]] = ()
    recordings: Callable[[], Sequence[Recording]] | None = None
    """Episodes of people that the task holds out."""
    actions: Actions = Actions()
    """What is known of the action's dims."""


RESOURCES = {
    "space": "the action space",
    "policy": "a policy or its folder",
    "expert": "a function of the dims held",
    "recordings": "a task with held-out recordings; or give operator.path=FILE",
}


@dataclasses.dataclass(frozen=True)
class OperatorKind(Settings, ABC):
    """Base class of the kinds of operators: frozen dataclasses whose fields, all with defaults, are settings.

    Instances are plain data: they travel to worker processes, compare by value and name what their commands depend
    on. A kind of your own is a subclass with `name`, `description` and `make`.

    >>> from mac_policy import make_policy, OPERATORS, OperatorDims
    >>> kind = OPERATORS.find("zeros")()
    >>> kind.make(OperatorDims.parse(1, action_dim=2), 1, Resources())([0.0]).values
    array([0., 0.], dtype=float32)
    """

    prefix: ClassVar[str] = "operator."
    name: ClassVar[str]
    """The name under which the kind is registered."""
    description: ClassVar[str] = "{0.name}"
    """Who commands, in words, for a table; {0.name} stands for the field or attribute `name`."""
    needs: ClassVar[Sequence[str]] = ()
    """What a measurement must bring for `make`: "policy", "expert", "recordings", or several; see `Resources`."""
    acts_alone: ClassVar[bool] = False
    """Whether the operator can do a task by itself when it holds all dims."""
    says: ClassVar[bool] = False
    """Whether the operator says what it wants (`Operator.wanted`), in an environment with an intent."""
    says_only: ClassVar[bool] = False
    """Whether the operator holds nothing, whatever the dims."""
    sets_intent: ClassVar[bool] = False
    """Whether the operator decides what the environment counts as wanted, also in arms in which it commands nothing."""

    @abstractmethod
    def make(self, dims: OperatorDims, batch: int, resources: Resources) -> Operator:
        """The operator of `batch` environments."""

    def describe(self) -> str:
        """Who commands, in words, for a table."""
        return self.description.format(self)

    @property
    def label(self) -> str:
        """Two or three words, for a title."""
        return self.name

    def identity(self) -> dict[str, Any]:
        """Plain JSON: everything that the commands depend on besides dims, observations and the episode's seed."""
        module = type(self).__module__
        own = {} if module.startswith("mac_policy.") else {"code": modules_sha256(module)}
        return {"kind": self.name, **dataclasses.asdict(self), **own}

    def require(self, resources: Resources, need: str) -> Any:
        """A resource that `needs` names; ValueError where the measurement does not have it."""
        found = getattr(resources, need)
        if found is None:
            raise ValueError(f"a {self.name!r} operator needs {need}: {RESOURCES[need]}")
        return found


K = TypeVar("K", bound=type[OperatorKind])


def check_operator_class(kind: Any) -> None:
    """ValueError unless this is a subclass of `OperatorKind` with a name."""
    if not (isinstance(kind, type) and issubclass(kind, OperatorKind)):
        raise ValueError(f"a kind of operator must be a subclass of mac_policy.OperatorKind, got {kind!r}")
    if not hasattr(kind, "name"):
        raise ValueError(f"{kind.__name__} must define the class attribute 'name'")


OPERATORS: Registry[type[OperatorKind]] = Registry("operator", "mac_policy.operators", check_operator_class)
"""Every kind of operator by its name."""


def register_operator(kind: K) -> K:
    """Register a kind of operator under its `name`; also a decorator. Registering a class twice changes nothing.

    >>> from mac_policy.operators.simple import Zeros
    >>> register_operator(Zeros).name
    'zeros'
    """
    check_operator_class(kind)
    OPERATORS.register(kind.name, kind)
    return kind


def make_kind(name: str, settings: Mapping[str, Any] | None = None) -> OperatorKind:
    """A kind with these settings, from a name that a user typed: registered, an entry point or ``module:Class``."""
    found = register_operator(OPERATORS.find(name))
    return from_mapping(found, settings or {}, f"{found.name} operator")


def make_operator(
    kind: str | OperatorKind,
    dims: OperatorDims,
    batch: int = 1,
    *,
    policy: Policy | str | Path | None = None,
    expert: ExpertFactory | None = None,
    space: spaces.Box | None = None,
    **settings: Any,
) -> Operator:
    """An operator of `batch` environments.

    kind: a name of `OPERATORS`, an entry point of the group ``mac_policy.operators``, or ``module:Class``
    policy, expert, space: what some kinds need; bc a policy (of any kind, or its folder), expert a function that
        makes the scripted expert, noisy the action space
    settings: the fields of the kind

    >>> from mac_policy import OperatorDims
    >>> operator = make_operator("laggy", OperatorDims.parse(1, action_dim=2), inner="zeros", p=0.1)
    >>> operator([0.0]).mask
    array([ True, False])
    """
    check_instance("dims", dims, OperatorDims)
    check_instance("kind", kind, (str, OperatorKind))
    if space is not None:
        check_instance("space", space, spaces.Box)
    chosen = make_kind(kind, settings) if isinstance(kind, str) else kind
    ready = policy if policy is None or isinstance(policy, Policy) else load_policy(policy)
    return chosen.make(dims, batch, Resources(space, ready, expert))
