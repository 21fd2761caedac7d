"""Checks of plain values a user hands in: each error names the value, what is allowed and the nearest valid name."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any, TypeGuard

LARGEST_COUNT = 2**53
"""The largest whole number that JSON and double precision hold exactly."""
LARGEST_NUMBER = sys.float_info.max


def shown(value: Any) -> str:
    """A value for an error message: settings keep lists as tuples, and users write them as lists.

    >>> from mac_policy.common.checks import shown
    >>> shown((1, ("a",)))
    "[1, ['a']]"
    """
    return f"[{', '.join(map(shown, value))}]" if type(value) is tuple else repr(value)


def check_count(name: str, value: Any, least: int = 1, most: int = LARGEST_COUNT) -> int:
    """Return `value` when it is a whole number from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {shown(value)}")
    count = int(value)
    if count > most:
        raise ValueError(f"{name} must be a whole number of at most {most}, got {count}")
    return count


def is_number(value: Any) -> TypeGuard[float]:
    """Whether `value` is a real number, of Python or of numpy; not a bool and not its text."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_number(name: str, value: Any) -> float:
    """Return `value` when it is a real number, infinite or NaN ones included."""
    if is_number(value):
        return value
    raise ValueError(f"{name} must be a number, got {'null' if value is None else shown(value)}")


def is_finite(value: Any) -> TypeGuard[float]:
    """Whether `value` is a real number that double precision holds.

    >>> from mac_policy.common.checks import is_finite
    >>> is_finite(0.5), is_finite(float("nan")), is_finite(10**400)
    (True, False, False)
    """
    if not is_number(value):
        return False
    if isinstance(value, Integral):
        return -LARGEST_NUMBER <= value <= LARGEST_NUMBER
    try:
        return math.isfinite(float(value))
    except OverflowError:  # of a fraction
        return False


def check_positive(name: str, value: Any) -> float:
    """Return `value` when it is a finite number above zero."""
    if not is_finite(value) or not value > 0:
        raise ValueError(f"{name} must be a finite number above 0, got {shown(value)}")
    return value


def check_range(name: str, value: Any, low: float, high: float = float("inf")) -> float:
    """Return `value` when it is a finite number with low <= value <= high."""
    if is_finite(value) and low <= value <= high:
        return value
    allowed = f"at least {low} and finite" if high == float("inf") else f"in [{low}, {high}]"
    raise ValueError(f"{name} must be {allowed}, got {shown(value)}")


def check_choice(name: str, value: Any, allowed: Iterable[str]) -> str:
    """Return `value` when it is one of `allowed`."""
    names = list(allowed)
    if isinstance(value, str) and value in names:
        return value
    raise ValueError(
        f"unknown {name} {shown(value)}; allowed are {', '.join(map(repr, names))}{nearest_hint(value, names)}"
    )


def check_list(name: str, value: Any) -> list[Any]:
    """The entries of `value`, a list or another sequence of several; a text or a number alone is refused.

    >>> from mac_policy.common.checks import check_list
    >>> check_list("seeds", (0, 1))
    [0, 1]
    """
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return list(value)
    remedy = f"; write {name}=[{value}]" if isinstance(value, str) or is_number(value) else ""
    raise ValueError(f"{name} must be a list such as [a,b], got {shown(value)}{remedy}")


def check_distinct(name: str, value: Any) -> None:
    """ValueError where `value` is no list, or holds an entry twice or a number below zero.

    >>> from mac_policy.common.checks import check_distinct
    >>> check_distinct("order", [0, 2, 0])
    Traceback (most recent call last):
    ValueError: order must name each entry once, got 0 twice in [0, 2, 0]
    """
    entries = check_list(name, value)
    for place, entry in enumerate(entries):
        if is_number(entry):
            check_count(f"{name}[{place}]", entry, 0)
        if entry in entries[:place]:
            raise ValueError(f"{name} must name each entry once, got {entry!r} twice in {shown(tuple(entries))}")


def check_mapping(name: str, value: Any) -> dict[str, Any]:
    """The entries of `value`, a mapping from the names of settings to theirs; anything else is refused.

    >>> from mac_policy.common.checks import check_mapping
    >>> check_mapping("baselines.vae", {"latent_dim": 2})
    {'latent_dim': 2}
    """
    if isinstance(value, Mapping):
        return dict(value)
    raise ValueError(
        f"{name} must be a mapping such as {{setting: value}}, got {shown(value)}; write {name}.setting=value"
    )


def check_instance(name: str, value: Any, kind: type | tuple[type, ...]) -> None:
    """ValueError where `value` is none of these types."""
    if not isinstance(value, kind):
        names = " or ".join(each.__name__ for each in (kind if isinstance(kind, tuple) else (kind,)))
        raise ValueError(f"{name} must be of type {names}, got {shown(value)}")


def check_flag(name: str, value: Any) -> None:
    """ValueError where `value` is not true or false: a text such as 'no' would count as true.

    >>> from mac_policy.common.checks import check_flag
    >>> check_flag("deterministic", "no")
    Traceback (most recent call last):
    ValueError: deterministic must be true or false, got 'no'
    """
    if value is not True and value is not False and type(value).__name__ != "bool":  # also numpy's
        raise ValueError(f"{name} must be true or false, got {shown(value)}")


def check_some(name: str, value: Any) -> None:
    """ValueError where `value` is empty."""
    if isinstance(value, Sequence) and len(value) == 0:
        raise ValueError(f"{name} must not be empty, got {shown(value)}: name at least one, or leave the option out")


def check_folder_name(name: str, value: Any) -> None:
    """ValueError where the text of `value` is not the name of one folder, such as one that leads out of its parent.

    >>> from mac_policy.common.checks import check_folder_name
    >>> check_folder_name("name", "../x")
    Traceback (most recent call last):
    ValueError: name must be the name of one folder, without slashes, got '../x'
    """
    if isinstance(value, (str, int)) and (str(value) in ("", ".", "..") or set(str(value)) & {"/", "\\", "\0"}):
        raise ValueError(f"{name} must be the name of one folder, without slashes, got {shown(value)}")


def nearest_hint(value: Any, names: Iterable[str]) -> str:
    """'; did you mean ...?' when a name comes close, else nothing."""
    near = get_close_matches(str(value), list(names), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""
