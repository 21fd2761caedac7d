"""Checks of plain values a user hands in: each error names the value, what is allowed and the nearest valid name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any, TypeGuard


def check_count(name: str, value: Any, least: int = 1) -> int:
    """Return `value` when it is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return int(value)


def is_number(value: Any) -> TypeGuard[float]:
    """Whether `value` is a real number, of Python or of numpy; not a bool and not its text."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_positive(name: str, value: Any) -> float:
    """Return `value` when it is a finite number above zero."""
    if not is_number(value) or not 0 < value < float("inf"):
        raise ValueError(f"{name} must be a finite number above 0, got {value!r}")
    return value


def check_range(name: str, value: Any, low: float, high: float = float("inf")) -> float:
    """Return `value` when it is a finite number with low <= value <= high."""
    if is_number(value) and low <= value <= high and value < float("inf"):
        return value
    allowed = f"at least {low} and finite" if high == float("inf") else f"in [{low}, {high}]"
    raise ValueError(f"{name} must be {allowed}, got {value!r}")


def check_choice(name: str, value: Any, allowed: Iterable[str]) -> str:
    """Return `value` when it is one of `allowed`."""
    names = list(allowed)
    if isinstance(value, str) and value in names:
        return value
    raise ValueError(f"unknown {name} {value!r}; allowed are {', '.join(map(repr, names))}{nearest_hint(value, names)}")


def check_list(name: str, value: Any) -> list[Any]:
    """The entries of `value`, a list or another sequence of several; a text or a number alone is refused.

    >>> from mac_policy.common.checks import check_list
    >>> check_list("seeds", (0, 1))
    [0, 1]
    """
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return list(value)
    remedy = f"; write {name}=[{value}]" if isinstance(value, str) or is_number(value) else ""
    raise ValueError(f"{name} must be a list such as [a,b], got {value!r}{remedy}")


def check_mapping(name: str, value: Any) -> dict[str, Any]:
    """The entries of `value`, a mapping from the names of settings to theirs; anything else is refused.

    >>> from mac_policy.common.checks import check_mapping
    >>> check_mapping("baselines.vae", {"latent_dim": 2})
    {'latent_dim': 2}
    """
    if isinstance(value, Mapping):
        return dict(value)
    raise ValueError(f"{name} must be a mapping such as {{setting: value}}, got {value!r}; write {name}.setting=value")


def nearest_hint(value: Any, names: Iterable[str]) -> str:
    """'; did you mean ...?' when a name comes close, else nothing."""
    near = get_close_matches(str(value), list(names), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""
