"""The kinds of one thing by name: policies, operators, tasks. Users add their own without touching the package."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module, metadata
from typing import Any, TypeVar

from mac_policy.common.checks import check_choice

T = TypeVar("T")


class Registry(Mapping[str, T]):
    """A mapping from names to kinds. A user's own kind is registered by calling `register`, named as
    ``module:attribute``, or published as an entry point of the group by an installed package.

    what: the word for one of them in messages; group: of the entry points
    check: raises a ValueError for what cannot be registered

    >>> from mac_policy.common.registry import Registry
    >>> colours = Registry("colour", "my_lab.colours")
    >>> colours.register("red", 0xFF0000)
    16711680
    >>> colours.find("red")
    16711680
    """

    def __init__(self, what: str, group: str, check: Callable[[Any], None] = lambda kind: None) -> None:
        self.what, self.group, self.check = what, group, check
        self._kinds: dict[str, T] = {}

    def register(self, name: str, kind: T) -> T:
        """Add a kind under a name that no other kind has."""
        self.check(kind)
        if not isinstance(name, str) or not name:
            raise ValueError(f"the name of a {self.what} must be a text, got {name!r}")
        if self._kinds.setdefault(name, kind) is not kind:
            raise ValueError(f"the {self.what} {name!r} is registered already, as {self._kinds[name]!r}")
        return kind

    def find(self, name: str) -> T:
        """The kind of this name; imports what ``module:attribute`` and entry points name, so that the name must come
        from the user and never from a file. ValueError where there is none."""
        if isinstance(name, str) and name in self._kinds:
            return self._kinds[name]
        if isinstance(name, str) and ":" in name:
            return self._imported(name)
        published = {point.name: point for point in metadata.entry_points(group=self.group)}
        if isinstance(name, str) and name in published:
            return self.register(name, published[name].load())
        return self[check_choice(self.what, name, [*self._kinds, *published])]

    def typed(self, name: str) -> str:
        """The name under which another process finds this kind: ``module:attribute`` where it was found by that."""
        kind = self._kinds.get(name)
        return next((each for each, other in self._kinds.items() if ":" in each and other is kind), name)

    def _imported(self, name: str) -> T:
        module, _, attribute = name.partition(":")
        try:
            found: Any = getattr(import_module(module), attribute)
        except (ImportError, AttributeError, ValueError, TypeError, SyntaxError) as error:
            raise ValueError(f"the {self.what} {name!r} cannot be imported: {error}") from error
        return self.register(name, found)

    def __getitem__(self, name: str) -> T:
        return self._kinds[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)
