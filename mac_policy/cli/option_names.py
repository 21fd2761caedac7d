"""Names of options: which exist, and which one a misspelt name means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf

from mac_policy.common.checks import nearest_hint


def check_key(key: str, configs: Sequence[DictConfig], open_keys: Sequence[str]) -> None:
    """ValueError unless an option exists in one of the configurations."""
    if any(key == each or key.startswith(f"{each}.") for each in open_keys):
        return
    parts = key.split(".")
    for depth in range(1, len(parts) + 1):
        parent, part = ".".join(parts[: depth - 1]), ".".join(parts[:depth])
        nodes = [OmegaConf.select(config, parent) if parent else config for config in configs]
        names = [f"{parent}.{name}" if parent else str(name) for name in entries_of(nodes)]
        if part in names or (names == [] and key.startswith("hydra.")):  # Hydra's own mappings of the user's entries
            continue
        if not names:
            raise ValueError(f"unknown option {key!r}: {parent} is one value; write {parent}=value")
        shown = [*groups_of(configs), *(name for name in names if name != "hydra")] if depth == 1 else names
        same = " or ".join(map(repr, leaves_of(configs, parts[-1])))
        hint = f"; did you mean {same}?" if same else nearest_hint(part, shown)
        raise ValueError(f"unknown option {part!r}; allowed are {', '.join(map(repr, dict.fromkeys(shown)))}{hint}")


def entries_of(nodes: Sequence[Any]) -> list[str]:
    """The names of the entries of all mappings among the nodes."""
    return list(dict.fromkeys(str(name) for node in nodes if isinstance(node, DictConfig) for name in node))


def groups_of(configs: Sequence[DictConfig]) -> list[str]:
    """The choices that a command has, such as policy and task, without Hydra's own."""
    found = entries_of([config.hydra.runtime.choices for config in configs])
    return [name for name in found if not name.startswith("hydra/")]


def leaves_of(configs: Sequence[DictConfig], name: str) -> list[str]:
    """The full names of all options that have this last name."""
    nodes: list[tuple[str, Any]] = [("", config) for config in configs]
    found = []
    while nodes:
        prefix, node = nodes.pop()
        for each in entries_of([node]):
            if prefix or each != "hydra":
                found += [f"{prefix}{each}"] * (each == name)
                nodes.append((f"{prefix}{each}.", node._get_node(each)))
    return sorted(set(found))
