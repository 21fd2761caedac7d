"""Settings as frozen dataclasses, whose annotations say which values are allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from numbers import Integral
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from mac_policy.common.checks import check_choice, check_count, check_list, check_positive, check_range, is_number

WORDS: dict[Any, str] = {
    bool: "true or false", int: "a whole number", float: "a number", str: "a text", NoneType: "null", Path: "a path",
    Mapping: "a mapping", dict: "a mapping",
}  # fmt: skip

Count = Annotated[int, check_count]
"""1, 2, ..."""
Natural = Annotated[int, partial(check_count, least=0)]
"""0, 1, ..."""
Positive = Annotated[float, check_positive]
"""A finite number above 0."""
NonNegative = Annotated[float, partial(check_range, low=0)]
"""A finite number of at least 0."""
Share = Annotated[float, partial(check_range, low=0, high=1)]
"""A number in [0, 1]."""


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

    Plain types, unions, `Literal`, `tuple[X, ...]` and `Annotated[X, check]` are checked, the last by calling
    `check(name, value)`. A list becomes a tuple, and a text becomes a path where the annotation has one. A subclass
    with a `__post_init__` of its own, for what concerns several fields, calls that of its base class first.

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
        hints = get_type_hints(type(self), include_extras=True)
        for name in (field.name for field in fields(self)):
            object.__setattr__(self, name, _ready(getattr(self, name), hints[name]))
            check_value(f"{self.prefix}{name}", getattr(self, name), hints[name])


S = TypeVar("S", bound=Settings)


def from_mapping(cls: type[S], values: Mapping[str, Any], what: str) -> S:
    """Settings from a mapping; unknown keys are refused. what: names the settings in errors.

    >>> from mac_policy.training.settings import TrainSettings
    >>> from_mapping(TrainSettings, {"steps": 4}, "training settings").steps
    4
    """
    for key in values:
        check_choice(f"key in the {what}", key, [field.name for field in fields(cls)])
    return cls(**values)


def check_value(name: str, value: Any, hint: Any) -> None:
    """ValueError unless the value is as an annotation says."""
    alternatives = _alternatives(hint)
    detailed = [each for each in alternatives if get_origin(each) in (Annotated, Literal, tuple)]
    plain = [get_origin(each) or each for each in alternatives if each not in detailed]
    if any(_is_a(value, kind) for kind in plain):
        return
    if not detailed:
        given = "null" if value is None else repr(list(value) if isinstance(value, tuple) else value)
        words = " or ".join(WORDS.get(kind, kind.__name__) for kind in plain)
        raise ValueError(f"{name} must be {words}, got {given}")
    _check_detailed(name, value, detailed[0])


def _check_detailed(name: str, value: Any, hint: Any) -> None:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        check_choice(name, value, arguments)
    elif origin is tuple:
        for place, entry in enumerate(check_list(name, value)):
            check_value(f"{name}[{place}]", entry, arguments[0])
    else:
        for check in arguments[1:]:
            check(name, value)
        check_value(name, value, arguments[0])


def _is_a(value: Any, kind: Any) -> bool:
    if kind in (int, float):
        return is_number(value) and (kind is float or isinstance(value, Integral))
    return kind is Any or isinstance(value, (bool, np.bool_) if kind is bool else kind)


def _ready(value: Any, hint: Any) -> Any:
    """Lists as tuples, and a path from its text, which may look like a number."""
    if isinstance(value, (list, tuple)):
        return tuple(_ready(entry, Any) for entry in value)
    is_text = isinstance(value, (str, int, float)) and not isinstance(value, bool)
    kinds = [get_args(each)[0] if get_origin(each) is Annotated else each for each in _alternatives(hint)]
    return Path(str(value)) if is_text and Path in kinds else value


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
