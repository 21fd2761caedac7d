"""Old names of keyword arguments, which keep working for one version."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def renamed_keywords(**names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Accept the old keyword names ``old=new`` of a function with a DeprecationWarning.

    >>> from mac_policy.common.deprecation import renamed_keywords
    >>> @renamed_keywords(colour="color")
    ... def paint(color):
    ...     return color
    >>> paint(color="red")
    'red'
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            for old in names.keys() & kwargs.keys():
                new = names[old]
                if new in kwargs:
                    raise ValueError(f"{function.__name__}: {old!r} is the old name of {new!r}; pass {new!r} alone")
                message = f"{function.__name__}: {old!r} is deprecated, use {new!r} instead"
                warnings.warn(message, DeprecationWarning, stacklevel=2)
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return wrapper

    return decorate
