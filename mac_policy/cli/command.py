"""What a command is: a function of checked options, and the configuration that holds their defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from mac_policy.common.checks import check_count, check_positive
from mac_policy.common.settings import from_mapping
from mac_policy.tasks import TASKS, Task

T = TypeVar("T")


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


def options_of(cls: type[T], config: Mapping[str, Any]) -> T:
    """Those of the composed options that are fields of a dataclass, with the types that the fields have."""
    return from_mapping(cls, {field.name: config[field.name] for field in fields(cls)}, "options")  # type: ignore[arg-type]


def task_of(config: Mapping[str, Any]) -> Task:
    """The task of the composed options, with the types that its options have."""
    task = TASKS.find(config["task"]["name"])
    return from_mapping(type(task), config["task"], f"task {task.name}", "task.")


@dataclass(frozen=True)
class RunOptions:
    """Options of the commands that read what a benchmark has trained."""

    run: Path | None
    out: Path | None

    example: ClassVar[str]
    """What `run` is, with an example."""

    @property
    def folder(self) -> Path:
        if self.run is None:
            raise ValueError(f"run=... is missing: {self.example}")
        return self.run


@dataclass(frozen=True)
class DrawingOptions(RunOptions):
    """Options of the commands that fill in rows of a benchmark's data."""

    steps: int | None
    temperature: float
    seed: int
    root: str | None

    def __post_init__(self) -> None:
        check_positive("temperature", self.temperature)
        check_count("seed", self.seed, 0)
        if self.steps is not None:
            check_count("steps", self.steps)
