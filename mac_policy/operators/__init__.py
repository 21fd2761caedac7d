"""Who commands. Importing a module of this list registers its kinds of operators."""

from mac_policy.operators import expert, replay, sb3, spoilers, trained, zeros

__all__ = ["expert", "replay", "sb3", "spoilers", "trained", "zeros"]
