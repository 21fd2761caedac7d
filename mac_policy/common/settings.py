"""Settings as frozen dataclasses that travel as plain JSON, with errors that name the nearest valid key."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, TypeVar

from mac_policy.common.checks import check_choice, is_number

T = TypeVar("T")


def check_range(name: str, value: float, low: float, high: float = math.inf) -> None:
    """ValueError unless value is a finite number with low <= value <= high."""
    if not (is_number(value) and math.isfinite(value) and low <= value <= high):
        allowed = f"at least {low} and finite" if high == math.inf else f"in [{low}, {high}]"
        raise ValueError(f"{name} must be {allowed}, got {value!r}")


def from_mapping(cls: type[T], values: Mapping[str, Any], what: str) -> T:
    """A settings dataclass from a mapping; unknown keys are refused by name.

    >>> from mac_policy.common.settings import from_mapping
    >>> from mac_policy.training.settings import TrainSettings
    >>> from_mapping(TrainSettings, {"steps": 4}, "training settings").steps
    4
    """
    fields = [f.name for f in dataclasses.fields(cls)]  # type: ignore[arg-type]
    for key in values:
        check_choice(f"key in the {what}", key, fields)
    return cls(**{key: _frozen(value) for key, value in values.items()})


def _frozen(value: Any) -> Any:
    return tuple(_frozen(entry) for entry in value) if isinstance(value, (list, tuple)) else value
