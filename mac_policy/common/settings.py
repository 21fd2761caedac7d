"""Settings as frozen dataclasses that travel as plain JSON, with errors that name the nearest valid key."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from numbers import Integral
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from mac_policy.common.checks import check_choice, check_list, is_number

T = TypeVar("T")
WORDS: dict[Any, str] = {
    bool: "true or false", int: "a whole number", float: "a number", str: "a text", NoneType: "null", Path: "a path",
    tuple: "a list such as [a,b]", Mapping: "a mapping", dict: "a mapping",
}  # fmt: skip


def check_range(name: str, value: float, low: float, high: float = math.inf) -> None:
    """ValueError unless value is a finite number with low <= value <= high."""
    if not (is_number(value) and math.isfinite(value) and low <= value <= high):
        allowed = f"at least {low} and finite" if high == math.inf else f"in [{low}, {high}]"
        raise ValueError(f"{name} must be {allowed}, got {value!r}")


def from_mapping(cls: type[T], values: Mapping[str, Any], what: str, prefix: str = "") -> T:
    """A settings dataclass from a mapping. Unknown keys and values of another type than the field's are refused.

    what: names the settings in errors; prefix: stands before the names of fields there, such as 'training.'

    >>> from mac_policy.common.settings import from_mapping
    >>> from mac_policy.training.settings import TrainSettings
    >>> from_mapping(TrainSettings, {"steps": 4}, "training settings").steps
    4
    """
    fields = [f.name for f in dataclasses.fields(cls)]  # type: ignore[arg-type]
    for key in values:
        check_choice(f"key in the {what}", key, fields)
    hints = get_type_hints(cls)
    ready = {key: _ready(value, hints[key]) for key, value in values.items()}
    numbers = {key: value for key, value in ready.items() if {int, float}.intersection(_kinds(hints[key]))}
    check_types({key: value for key, value in ready.items() if key not in numbers}, hints, prefix)
    try:
        made = cls(**ready)  # whose checks of numbers say more
    except TypeError:
        check_types(numbers, hints, prefix)
        raise
    check_types(numbers, hints, prefix)
    return made


def check_types(values: Mapping[str, Any], hints: Mapping[str, Any], prefix: str = "") -> None:
    """ValueError for the first value that is not of its hinted type."""
    for key, value in values.items():
        kinds, name = _kinds(hints[key]), f"{prefix}{key}"
        if not _fits(value, hints[key]):
            if tuple in kinds:
                check_list(name, value)  # says what to write
            given = "null" if value is None else repr(list(value) if isinstance(value, tuple) else value)
            words = " or ".join(WORDS.get(kind, kind.__name__) for kind in kinds)
            raise ValueError(f"{name} must be {words}, got {given}")


def _ready(value: Any, hint: Any) -> Any:
    """Lists as tuples, and a path from its text, which may look like a number."""
    if isinstance(value, (list, tuple)):
        return tuple(_ready(entry, Any) for entry in value)
    is_text = isinstance(value, (str, int, float)) and not isinstance(value, bool)
    return Path(str(value)) if is_text and Path in _kinds(hint) else value


def _fits(value: Any, hint: Any) -> bool:
    if isinstance(value, tuple) and any(get_args(each)[1:] == (...,) for each in _alternatives(hint)):
        inner = next(get_args(each)[0] for each in _alternatives(hint) if get_origin(each) is tuple)
        return all(_fits(entry, inner) for entry in value)
    kinds = _kinds(hint)
    if is_number(value):
        return float in kinds or Any in kinds or (int in kinds and isinstance(value, Integral))
    return Any in kinds or isinstance(value, tuple(kind for kind in kinds if kind not in (int, float)))


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _kinds(hint: Any) -> list[Any]:
    """The types that a hint allows, without what is in them."""
    return [get_origin(each) or each for each in _alternatives(hint)]
