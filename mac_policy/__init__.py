"""Shared autonomy for robots with any-order models.

The public names are listed in ``__init__.pyi``, one a line, and loaded at their first use, so that `import mac_policy`
is quick.

>>> from mac_policy import load_policy
"""

from importlib import import_module

__version__ = "0.1.0"

with open(f"{__file__}i") as _stub:  # noqa: PTH123 (pathlib is not loaded for this)
    _LINES = [line.split() for line in _stub if line.startswith("from ")]  # from MODULE import NAME as NAME
_HOMES = {line[-1]: line[1] for line in _LINES}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
