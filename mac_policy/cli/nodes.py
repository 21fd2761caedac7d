"""Hydra's nodes of policies, operators, tasks and training, made from the fields of their dataclasses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from importlib import metadata
from typing import Any, NamedTuple

from hydra.core.config_store import ConfigStore

from mac_policy.common.registry import Registry
from mac_policy.operators.manners import DEFAULT, Manners
from mac_policy.operators.registry import OPERATORS, register_operator
from mac_policy.policies.registry import POLICIES, register_policy
from mac_policy.tasks import TASKS, register_task
from mac_policy.training.settings import TrainSettings


class Group(NamedTuple):
    """A choice of the command line whose alternatives stand in a registry."""

    registry: Registry[Any]
    register: Callable[[Any], Any]
    settings: Callable[[Any], Any]
    """The dataclass of a registered kind, or an instance of it."""
    node: Callable[[Any], dict[str, Any]]
    package: str


def defaults(settings: Any) -> dict[str, Any]:
    """The fields of a dataclass with their defaults, or with the values of an instance, as plain values."""
    made = {field.name: field.default_factory() for field in fields(settings) if field.default_factory is not MISSING}
    return {field.name: plain(getattr(settings, field.name, made.get(field.name))) for field in fields(settings)}


def plain(value: Any) -> Any:
    return [plain(entry) for entry in value] if isinstance(value, tuple) else value


GROUPS = {
    "policy": Group(
        POLICIES,
        register_policy,
        lambda kind: kind.settings_class,
        lambda kind: {"train": [kind.kind], kind.kind: defaults(kind.settings_class)},
        "_global_",
    ),
    "operator": Group(
        OPERATORS,
        register_operator,
        lambda kind: kind,
        lambda kind: {"kind": kind.name, **defaults(kind)},
        "operator",
    ),
    "task": Group(TASKS, register_task, lambda task: task, defaults, "task"),
}


def store_nodes() -> None:
    """Make all registered kinds choices of their groups, and the settings of training the node `_training`."""
    ConfigStore.instance().store("_training", {"training": defaults(TrainSettings)})
    for name, group in GROUPS.items():
        for kind in group.registry:
            store(name, kind)
    usual = {"kind": DEFAULT, **{field.name: field.default for field in fields(Manners)}}
    ConfigStore.instance().store(DEFAULT, usual, group="operator", package="operator")


def store(group_name: str, name: str) -> None:
    group = GROUPS[group_name]
    kind = group.registry.find(name)
    ConfigStore.instance().store(name, group.node(kind), group=group_name, package=group.package)


def store_own(group_name: str, name: str) -> None:
    """Make a user's own kind, named as `module:attribute` or published as an entry point, a choice of its group."""
    group = GROUPS.get(group_name)
    if group and (":" in name or name in metadata.entry_points(group=group.registry.group).names):
        group.register(group.registry.find(name))
        store(group_name, name)
