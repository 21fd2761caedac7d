"""The Franka kitchen: environment, goals, scripted demonstrator, operator and drawing.

The environment is loaded when first used, so that importing this package loads no simulator.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    if name in ("KitchenEnv", "make"):
        from envs.kitchen import environment

        return getattr(environment, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
