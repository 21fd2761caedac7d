"""Settings as frozen dataclasses that travel as plain JSON, with errors that name the nearest valid key."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, TypeVar

from mac_policy.common.checks import check_choice, check_count, is_number

T = TypeVar("T")


def check_range(name: str, value: float, low: float, high: float = math.inf) -> None:
    """ValueError unless value is a finite number with low <= value <= high."""
    if not (is_number(value) and math.isfinite(value) and low <= value <= high):
        allowed = f"at least {low} and finite" if high == math.inf else f"in [{low}, {high}]"
        raise ValueError(f"{name} must be {allowed}, got {value!r}")


def from_mapping(cls: type[T], values: Mapping[str, Any], what: str) -> T:
    """A settings dataclass from a mapping; unknown keys are refused by name.

    >>> from_mapping(PolicySettings, {"horizon": 4}, "bc settings").horizon
    4
    """
    fields = [f.name for f in dataclasses.fields(cls)]  # type: ignore[arg-type]
    for key in values:
        check_choice(f"key in the {what}", key, fields)
    return cls(**{key: _frozen(value) for key, value in values.items()})


def _frozen(value: Any) -> Any:
    return tuple(_frozen(entry) for entry in value) if isinstance(value, (list, tuple)) else value


@dataclasses.dataclass(frozen=True)
class PolicySettings:
    """What every policy can be told.

    history: observations a decision is based on (1 = the present one alone)
    horizon: steps of action one decision plans
    execute: planned steps carried out before planning anew (<= horizon)
    observation_noise: standard deviation of the gaussian noise on normalised observations in training
    displacement: in training, observations that an action dim moves are displaced by up to this many standard
        deviations of their change in one step, and the action is changed to come back (see recovery.py)
    recovery_steps: in about how many steps it comes back
    """

    history: int = 1
    horizon: int = 1
    execute: int = 1
    observation_noise: float = 0.0
    displacement: float = 0.0
    recovery_steps: float = 4.0

    def __post_init__(self) -> None:
        for name in ("history", "horizon", "execute"):
            check_count(name, getattr(self, name))
        check_range("execute", self.execute, 1, self.horizon)
        check_range("observation_noise", self.observation_noise, 0.0)
        check_range("displacement", self.displacement, 0.0)
        check_range("recovery_steps", self.recovery_steps, 1.0)
