"""Settings as frozen dataclasses, whose annotations say which values are allowed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache, partial
from inspect import isabstract
from numbers import Integral
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from mac_policy.common.checks import (
    check_choice,
    check_count,
    check_folder_name,
    check_list,
    check_positive,
    check_range,
    check_some,
    is_finite,
    shown,
)

WORDS: dict[Any, str] = {
    bool: "true or false", int: "a whole number", float: "a finite number", str: "a text", NoneType: "null",
    Path: "a path", Mapping: "a mapping", dict: "a mapping",
}  # fmt: skip

Count = Annotated[int, check_count]
"""1, 2, ..."""
Natural = Annotated[int, partial(check_count, least=0)]
"""0, 1, ..."""
Size = Annotated[int, partial(check_count, most=100_000)]
"""1, 2, ..., 100000: of a network's layer."""
Depth = Annotated[int, partial(check_count, most=1000)]
"""1, 2, ..., 1000: of what is repeated for every layer or step."""
Rows = Annotated[int, partial(check_count, most=1_000_000)]
"""1, 2, ..., 1000000: of what is listed at once, such as the rows of a step or the episodes of a run."""
Positive = Annotated[float, check_positive]
"""A finite number above 0."""
NonNegative = Annotated[float, partial(check_range, low=0)]
"""A finite number of at least 0."""
Share = Annotated[float, partial(check_range, low=0, high=1)]
"""A number in [0, 1]."""
Names = Annotated[tuple[str, ...], check_some]
"""One or more texts."""
FolderName = Annotated[str | int, check_folder_name]
"""The name of one folder, which may look like a number."""


def choice(allowed: Iterable[str], what: str | None = None) -> Callable[[str, Any], str]:
    """A check for `Annotated[str, choice(...)]`: one of `allowed`; errors call the value `what` instead of its name."""
    return lambda name, value: check_choice(what or name, value, allowed)


def needed(what: str) -> Callable[[str, Any], None]:
    """A check for an option whose default in the configuration is null: a value must be given."""

    def check(name: str, value: Any) -> None:
        if value is None:
            raise ValueError(f"{name}=... is missing: {what}")

    return check


@dataclass(frozen=True)
class Settings:
    """Base class of settings: frozen dataclasses that check every value against the annotation of its field.

    Plain types, unions, `Literal`, `tuple[X, ...]`, `tuple[X, Y]`, `Mapping[str, X]` and `Annotated[X, check]` are
    checked, the last by calling `check(name, value)`. A list becomes a tuple, and a text becomes a path where the
    annotation has one. A subclass with a `__post_init__` of its own, for what concerns several fields, calls that of
    its base class first.

    >>> @dataclass(frozen=True)
    ... class Brush(Settings):
    ...     width: Count = 3
    ...     colour: Literal["red", "blue"] = "red"
    >>> Brush(colour="bleu")
    Traceback (most recent call last):
    ValueError: unknown colour 'bleu'; allowed are 'red', 'blue'; did you mean 'blue'?
    """

    prefix: ClassVar[str] = ""
    """Stands before the names of the fields in errors, such as 'training.'."""

    def __post_init__(self) -> None:
        own: Any = type(self)
        hints = _hints(own)
        for name in (field.name for field in fields(self)):
            full = f"{self.prefix}{name}"
            object.__setattr__(self, name, _ready(full, getattr(self, name), hints[name]))
            check_value(full, getattr(self, name), hints[name])


S = TypeVar("S", bound=Settings)


def from_mapping(cls: type[S], values: Mapping[str, Any], what: str) -> S:
    """Settings from a mapping; unknown and missing keys are refused. what: names the settings in errors.

    >>> from mac_policy.training.settings import TrainSettings
    >>> from_mapping(TrainSettings, {"steps": 4}, "training settings").steps
    4
    """
    names = [field.name for field in fields(cls)]
    if not isinstance(values, Mapping):
        raise ValueError(f"{what} must be a mapping from names to values, got {values!r}")
    if isabstract(cls):
        raise ValueError(f"{what} must be of one of the kinds of {cls.__name__}, got {values!r}")
    for key in values:
        check_choice(f"key in the {what}", key, names)
    required = [field.name for field in fields(cls) if field.default is MISSING and field.default_factory is MISSING]
    if missing := [name for name in required if name not in values]:
        raise ValueError(f"the {what} lacks the key {missing[0]!r}")
    return cls(**values)


@cache
def _hints(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=True)


def check_value(name: str, value: Any, hint: Any) -> None:
    """ValueError unless the value is as an annotation says."""
    alternatives = _alternatives(hint)
    detailed = [each for each in alternatives if get_origin(each) in (Annotated, Literal, tuple, Mapping)]
    plain = [get_origin(each) or each for each in alternatives if each not in detailed]
    if any(_is_a(value, kind) for kind in plain):
        return
    if not detailed:
        given = "null" if value is None else shown(value)
        words = " or ".join(WORDS[Mapping] if _are_settings(kind) else WORDS.get(kind, kind.__name__) for kind in plain)
        raise ValueError(f"{name} must be {words}, got {given}")
    _check_detailed(name, value, detailed[0])


def _check_detailed(name: str, value: Any, hint: Any) -> None:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        check_choice(name, value, arguments)
    elif origin is tuple:
        _check_entries(name, check_list(name, value), arguments)
    elif origin is Mapping:
        if not isinstance(value, Mapping):
            raise ValueError(f"{name} must be {WORDS[Mapping]}, got {value!r}")
        for key, entry in value.items():
            check_value(f"key of {name}", key, arguments[0])
            check_value(f"{name}.{key}", entry, arguments[1])
    else:
        for check in arguments[1:]:
            check(name, value)
        check_value(name, value, arguments[0])


def _check_entries(name: str, entries: list[Any], kinds: tuple[Any, ...]) -> None:
    if kinds[-1] is not Ellipsis:
        if len(entries) != len(kinds):
            raise ValueError(f"{name} must have {len(kinds)} entries, got {entries}")
        each = kinds
    elif kinds[0] in (int, str) and {*map(type, entries)} <= {kinds[0]}:
        return  # thousands of plain values
    elif kinds[0] is float and {*map(type, entries)} <= {float} and all(map(math.isfinite, entries)):
        return
    else:
        each = kinds[:1] * len(entries)
    for place, (entry, kind) in enumerate(zip(entries, each, strict=True)):
        check_value(f"{name}[{place}]", entry, kind)


def _is_a(value: Any, kind: Any) -> bool:
    if kind in (int, float):
        return is_finite(value) and (kind is float or isinstance(value, Integral))
    return kind is Any or isinstance(value, (bool, np.bool_) if kind is bool else kind)


def _ready(name: str, value: Any, hint: Any) -> Any:
    """Lists as tuples, settings within settings from their mapping, and a path from its text, which may look like a
    number."""
    if isinstance(value, (list, tuple)):
        inner = next((get_args(each)[0] for each in _alternatives(hint) if get_origin(each) is tuple), Any)
        if inner in (int, float, str) or not any(isinstance(entry, (list, tuple, Mapping)) for entry in value):
            return tuple(value)
        return tuple(_ready(f"{name}[{place}]", entry, inner) for place, entry in enumerate(value))
    kinds = [get_args(each)[0] if get_origin(each) is Annotated else each for each in _alternatives(hint)]
    if isinstance(value, Mapping):
        own = next(filter(_are_settings, kinds), None)
        return value if own is None else from_mapping(own, value, name)
    is_text = isinstance(value, (str, int, float)) and not isinstance(value, bool)
    return Path(str(value)) if is_text and Path in kinds and str(value) and "\0" not in str(value) else value


def _are_settings(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Settings)


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
