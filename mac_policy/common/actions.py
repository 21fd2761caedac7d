"""What a task, a data set or a user says about the dims of an action besides their bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mac_policy.common.checks import check_choice
from mac_policy.common.settings import Settings

Meaning = Literal["relative", "absolute", "delta", "unknown"]

SMALLEST_SCALE, LARGEST_SCALE = 1e-9, 1e9
"""Beyond them single precision has no places to go to."""


@dataclass(frozen=True)
class Actions(Settings):
    """The dims of an action: their names, units and meaning, and the observed positions that they move.

    names: of the dims, in order; () numbers them
    units: one for each dim, or one for all
    meaning: 'absolute' (an action is a place), 'relative' (an offset from the present reading), 'delta' (an offset
        from the last target) or 'unknown'
    observed: for each dim the index of the observed position that it moves
    scale: for each dim, or one for all, the change of position that one unit of action commands

    With `observed` and `scale` a relative action can be turned into its target, reading + scale * action, and back.

    >>> Actions(("x", "y"), ("m",), "relative", observed=(0, 1), scale=(0.05,)).has_targets
    True
    """

    names: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    meaning: Meaning = "unknown"
    observed: tuple[int, ...] = ()
    scale: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.observed) != bool(self.scale):
            raise ValueError(
                "observed and scale go together: they say which position a dim moves, and how far; "
                f"got observed={self.observed}, scale={self.scale}"
            )
        if self.observed and self.meaning != "relative":
            raise ValueError(f"observed and scale turn relative actions into targets; the meaning is {self.meaning!r}")
        if any(not SMALLEST_SCALE <= scale <= LARGEST_SCALE for scale in self.scale):
            allowed = f"numbers above 0, from {SMALLEST_SCALE:g} to {LARGEST_SCALE:g}"
            raise ValueError(f"scale must hold {allowed}, got {self.scale}")
        if any(index < 0 for index in self.observed):
            raise ValueError(f"observed must hold indices of an observation, got {self.observed}")
        if len(set(self.names)) < len(self.names):
            raise ValueError(f"names must be different, got {self.names}")

    @property
    def has_targets(self) -> bool:
        """Whether an action can be turned into the place that it sends the robot to."""
        return bool(self.observed)

    def dims_of(self, what: str, chosen: Sequence[int | str]) -> list[int]:
        """The indices of dims that are given by index or by name; ValueError for an unknown name."""
        return [
            self.names.index(check_choice(f"dim in {what}", each, self.names)) if isinstance(each, str) else each
            for each in chosen
        ]

    def of(self, action_dim: int, observation_dim: int) -> Actions:
        """The same with a name, a unit and a scale for each of the dims; ValueError where the numbers do not fit."""
        for what, found, allowed in (
            ("names", self.names, (0, action_dim)),
            ("units", self.units, (0, 1, action_dim)),
            ("observed", self.observed, (0, action_dim)),
            ("scale", self.scale, (0, 1, action_dim)),
        ):
            if len(found) not in allowed:
                raise ValueError(f"{what} has {len(found)} entries, the action has {action_dim} dims: {found}")
        if self.observed and max(self.observed) >= observation_dim:
            raise ValueError(f"observed names {max(self.observed)}: an observation has {observation_dim} values")
        return Actions(
            self.names or tuple(str(i) for i in range(action_dim)),
            self.units * action_dim if len(self.units) == 1 else self.units or ("",) * action_dim,
            self.meaning,
            self.observed,
            self.scale * action_dim if len(self.scale) == 1 else self.scale,
        )
