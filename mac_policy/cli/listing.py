"""What a user can set, with defaults and explanations, from the dataclasses themselves."""

from __future__ import annotations

import inspect
import itertools
import json
import re
import textwrap
from collections.abc import Iterable
from dataclasses import is_dataclass
from typing import Any

from mac_policy.cli.nodes import GROUPS, defaults
from mac_policy.common.checks import check_choice
from mac_policy.training.settings import TrainSettings


def settings_text(groups: Iterable[str], name: str) -> str:
    """The settings of a policy, an operator or a task by its name, or of `training`; without a name, the names."""
    known: dict[str, Any] = {"training": TrainSettings} if "policy" in groups else {}
    for group in map(GROUPS.__getitem__, groups):
        known |= {each: group.settings(kind) for each, kind in group.registry.items()}
    if not name:
        return f"--settings NAME lists the settings of one of: {', '.join(known)}"
    return listed(known[check_choice("name of settings", name, known)])


def listed(settings: Any) -> str:
    """The fields of a dataclass with their values, those that share an explanation together."""
    values = defaults(settings)
    explained = explanations(settings if isinstance(settings, type) else type(settings), list(values))
    lines = []
    for explanation, names in itertools.groupby(values, lambda name: explained.get(name, "")):
        lines.append(", ".join(f"{name}={shown(values[name])}" for name in names))
        lines += textwrap.wrap(explanation, 100, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(lines)


def shown(value: Any) -> str:
    """A value as it is written on the command line."""
    if isinstance(value, list):
        return f"[{','.join(map(shown, value))}]"
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def explanations(cls: type, names: list[str]) -> dict[str, str]:
    """Each field's explanation, out of the docstrings of a dataclass and its bases: `name, name: explanation`."""
    one = "|".join(names)
    found: dict[str, str] = {}
    for base in reversed([each for each in cls.__mro__ if is_dataclass(each)]):
        text = " ".join((inspect.cleandoc(base.__doc__ or "").partition(">>>")[0]).split())
        parts = re.split(rf"(?<![\w.])((?:{one})(?:, (?:{one}))*): ", text)
        for group, explanation in zip(parts[1::2], parts[2::2], strict=True):
            found |= dict.fromkeys(group.split(", "), explanation.rstrip("; "))
    return found
