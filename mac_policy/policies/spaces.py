"""The observation and action spaces of a policy: as plain JSON, and their comparison with an environment's."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, NamedTuple

import numpy as np
from gymnasium import spaces

from mac_policy.common.actions import Actions
from mac_policy.common.checks import check_instance, check_list, check_range
from mac_policy.common.labels import Ahead, AnyLabel, Label, in_order, numbers
from mac_policy.common.settings import Count, Natural, Settings, choice, from_mapping


class Spaces(NamedTuple):
    """The observation space and the action space of a policy, two flat boxes, what is known of the actions, and what
    a person may say of them.

    >>> from gymnasium.spaces import Box
    >>> Spaces.of(Box(-1, 1, (3,)), Box(-1, 1, (2,))).action.shape
    (2,)
    """

    observation: spaces.Box
    action: spaces.Box
    actions: Actions = Actions()
    labels: tuple[AnyLabel, ...] = ()

    @staticmethod
    def of(
        observation: spaces.Space[Any],
        action: spaces.Space[Any],
        actions: Actions | None = None,
        labels: Sequence[AnyLabel] = (),
    ) -> Spaces:
        """The spaces of an environment; ValueError unless both are flat boxes and the action space is bounded."""
        for name, space in (("observation", observation), ("action", action)):
            if not isinstance(space, spaces.Box) or len(space.shape) != 1:
                raise ValueError(f"the {name} space must be a Box with one axis, got {space}")
        if not action.is_bounded():  # type: ignore[attr-defined]
            raise ValueError(f"the action space must be bounded on both sides, got {action}")
        for label in check_list("labels", labels):
            check_instance("each of labels", label, (Label, Ahead))
        if actions is not None:
            check_instance("actions", actions, Actions)
        known = (actions or Actions()).of(action.shape[0], observation.shape[0])  # type: ignore[index]
        last, labels = observation.shape[0] - 1, in_order(labels)  # type: ignore[index]
        for label in numbers(labels):
            check_range(f"observed of label {label.name!r}", label.observed, 0, last)
        return Spaces(observation, action, known, labels)  # type: ignore[arg-type]


def spaces_to_json(both: Spaces) -> dict[str, Any]:
    """As plain JSON."""
    found = {
        "observation": box_to_json(both.observation),
        "action": box_to_json(both.action),
        "actions": json.loads(json.dumps(asdict(both.actions))),
    }
    labels = [json.loads(json.dumps(asdict(label))) for label in both.labels]
    return found | ({"labels": labels} if labels else {})


@dataclass(frozen=True)
class BoxRecord(Settings):
    """A box in plain JSON: shape, dtype, and bounds, null where there is none."""

    shape: tuple[Count, ...]
    dtype: Annotated[str, choice(("float32", "float64"))]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("low", "high"):
            if len(getattr(self, name)) != math.prod(self.shape):
                raise ValueError(f"{name} has {len(getattr(self, name))} bounds for the shape {self.shape}")

    def box(self) -> spaces.Box:
        dtype = np.dtype(self.dtype).type
        low, high = (
            np.array([infinite if v is None else v for v in bounds], dtype).reshape(self.shape)
            for bounds, infinite in ((self.low, -np.inf), (self.high, np.inf))
        )
        if (low > high).any():
            raise ValueError(f"low must not be above high, got {low} and {high}")
        return spaces.Box(low, high, self.shape, dtype)


@dataclass(frozen=True)
class LabelRecord(Settings):
    """A label in plain JSON: a category has classes, a label of real values what it is about."""

    name: str
    classes: tuple[str, ...] | None = None
    observed: Natural | None = None
    steps: Count | None = None

    def label(self) -> AnyLabel:
        if self.classes is not None and self.observed is None and self.steps is None:
            return Label(self.name, self.classes)
        if self.classes is None and self.observed is not None and self.steps is not None:
            return Ahead(self.name, self.observed, self.steps)
        raise ValueError(f"label {self.name!r} must have either classes, or observed and steps")


@dataclass(frozen=True)
class SpacesRecord(Settings):
    """Spaces in plain JSON; of spaces stored without `actions` nothing more is known."""

    observation: BoxRecord
    action: BoxRecord
    actions: Actions = field(default_factory=Actions)
    labels: tuple[LabelRecord, ...] = ()


def spaces_from_json(data: Mapping[str, Any]) -> Spaces:
    """The inverse of `spaces_to_json`; ValueError for anything else."""
    found = from_mapping(SpacesRecord, data, "spaces")
    labels = [entry.label() for entry in found.labels]
    return Spaces.of(found.observation.box(), found.action.box(), found.actions, labels)


def box_to_json(box: spaces.Box) -> dict[str, Any]:
    """Shape, dtype and bounds; infinite bounds become null."""
    low, high = ([float(v) if np.isfinite(v) else None for v in values.ravel()] for values in (box.low, box.high))
    return {"shape": list(box.shape), "dtype": str(box.dtype), "low": low, "high": high}


def box_from_json(data: Mapping[str, Any]) -> spaces.Box:
    """The inverse of `box_to_json`."""
    return from_mapping(BoxRecord, data, "box").box()


def check_same(have: Spaces, want: Spaces) -> None:
    """ValueError that names the space in which a policy and an environment differ.

    The bounds of observations may differ: environments disagree about them and no policy uses them.
    """
    if have.observation.shape != want.observation.shape:
        raise ValueError(
            f"the policy reads observations of shape {have.observation.shape}, "
            f"but the environment gives {want.observation.shape}"
        )
    if have.action.shape != want.action.shape:
        raise ValueError(
            f"the policy gives actions of shape {have.action.shape}, but the environment takes {want.action.shape}"
        )
    if not (np.allclose(have.action.low, want.action.low) and np.allclose(have.action.high, want.action.high)):
        raise ValueError(
            f"the policy's action bounds [{have.action.low}, {have.action.high}] are not the "
            f"environment's [{want.action.low}, {want.action.high}]"
        )
