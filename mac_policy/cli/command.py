"""What a command is: a function of checked options, and the configuration that holds their defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from mac_policy.common.checks import check_mapping
from mac_policy.common.settings import Count, Natural, Positive, S, Settings, from_mapping
from mac_policy.tasks import TASKS, Task


@dataclass(frozen=True)
class Command:
    """A command of `scripts/` or of `mac-policy`.

    main: called with the composed options as plain values
    config: the configuration file under configs/, without .yaml
    open: options that hold settings whose names only the library knows, such as those of a network: the library
        refuses unknown ones by name
    renamed: former names of options, with the present ones; a former name works and prints a warning
    aliases: short names of options
    """

    main: Callable[[dict[str, Any]], None]
    config: str
    open: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)


def options_of(cls: type[S], config: Mapping[str, Any]) -> S:
    """Those of the composed options that are fields of a dataclass, with the types that the fields have."""
    return from_mapping(cls, {field.name: config[field.name] for field in fields(cls)}, "options")


def task_of(config: Mapping[str, Any]) -> Task:
    """The task of the composed options, with the types that its options have."""
    chosen = check_mapping("task", config["task"])
    task = TASKS.find(chosen.get("name", ""))
    return from_mapping(type(task), chosen, f"task {task.name}")


@dataclass(frozen=True)
class DrawingOptions(Settings):
    """Options of the commands that fill in rows of a benchmark's data."""

    steps: Count | None
    temperature: Positive
    seed: Natural
    root: Path | None
    out: Path | None
