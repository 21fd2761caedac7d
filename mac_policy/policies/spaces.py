"""The observation and action spaces of a policy: as plain JSON, and their comparison with an environment's."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from mac_policy.common.actions import Actions
from mac_policy.common.labels import Label
from mac_policy.common.settings import from_mapping


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
    labels: tuple[Label, ...] = ()

    @staticmethod
    def of(
        observation: spaces.Space[Any],
        action: spaces.Space[Any],
        actions: Actions | None = None,
        labels: Sequence[Label] = (),
    ) -> Spaces:
        """The spaces of an environment; ValueError unless both are flat boxes and the action space is bounded."""
        for name, space in (("observation", observation), ("action", action)):
            if not isinstance(space, spaces.Box) or len(space.shape) != 1:
                raise ValueError(f"the {name} space must be a Box with one axis, got {space}")
        if not action.is_bounded():  # type: ignore[attr-defined]
            raise ValueError(f"the action space must be bounded on both sides, got {action}")
        known = (actions or Actions()).of(action.shape[0], observation.shape[0])  # type: ignore[index]
        if len({label.name for label in labels}) < len(labels):
            raise ValueError(f"labels must have different names, got {[label.name for label in labels]}")
        return Spaces(observation, action, known, tuple(labels))  # type: ignore[arg-type]


def spaces_to_json(both: Spaces) -> dict[str, Any]:
    """As plain JSON."""
    found = {
        "observation": box_to_json(both.observation),
        "action": box_to_json(both.action),
        "actions": json.loads(json.dumps(asdict(both.actions))),
    }
    labels = [{"name": label.name, "classes": list(label.classes)} for label in both.labels]
    return found | ({"labels": labels} if labels else {})


def spaces_from_json(data: Mapping[str, Any]) -> Spaces:
    """The inverse of `spaces_to_json`; of spaces stored without `actions` nothing more is known."""
    observation, action = (box_from_json(data[name]) for name in ("observation", "action"))
    labels = [Label(entry["name"], tuple(entry["classes"])) for entry in data.get("labels", ())]
    return Spaces.of(observation, action, from_mapping(Actions, data.get("actions", {}), "actions"), labels)


def box_to_json(box: spaces.Box) -> dict[str, Any]:
    """Shape, dtype and bounds; infinite bounds become null."""
    low, high = ([float(v) if np.isfinite(v) else None for v in values.ravel()] for values in (box.low, box.high))
    return {"shape": list(box.shape), "dtype": str(box.dtype), "low": low, "high": high}


def box_from_json(data: Mapping[str, Any]) -> spaces.Box:
    """The inverse of `box_to_json`."""
    dtype, shape = np.dtype(data["dtype"]).type, tuple(data["shape"])
    low, high = (
        np.array([infinite if v is None else v for v in data[name]], dtype).reshape(shape)
        for name, infinite in (("low", -np.inf), ("high", np.inf))
    )
    return spaces.Box(low, high, shape, dtype)


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
