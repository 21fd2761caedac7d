"""Checks of episodes: a ValueError says which episode cannot be used, and why."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mac_policy.common.checks import check_choice, check_instance, check_list
from mac_policy.demonstrations.episode import Episode, Floats


def check_types(episodes: Any, name: str) -> tuple[Episode, ...]:
    """The episodes as a tuple; ValueError unless they are episodes, and their arrays are arrays."""
    found = tuple(check_list("episodes", episodes) if not isinstance(episodes, Iterator) else episodes)
    for index, episode in enumerate(found):
        check_instance(f"{name}, episode {index}", episode, Episode)
        for field in ("observations", "actions", "rewards", "terminations", "truncations"):
            check_instance(f"{name}, episode {index}: {field}", getattr(episode, field), np.ndarray)
        for field in ("executed", "labels"):
            if getattr(episode, field) is not None:
                check_instance(f"{name}, episode {index}: {field}", getattr(episode, field), np.ndarray)
    return found


def check_episodes(episodes: Sequence[Episode], name: str) -> None:
    """At least one episode, at least one step each, the same shapes throughout, every number finite."""
    if not episodes:
        raise ValueError(f"{name} holds no episodes; a data set needs at least one")
    widths = (episodes[0].observations.shape[-1:], episodes[0].actions.shape[-1:])
    for index, episode in enumerate(episodes):
        _check_shapes(episode, widths, f"{name}, episode {index}")
        for field in ("observations", "actions", "rewards"):
            _check_finite(getattr(episode, field), field, f"{name}, episode {index}")


def _check_shapes(episode: Episode, widths: tuple[tuple[int, ...], tuple[int, ...]], where: str) -> None:
    steps = len(episode.actions)
    if steps == 0:
        raise ValueError(f"{where} has no steps")
    wanted: dict[str, tuple[int, ...]] = {
        "observations": (steps + 1, *widths[0]),
        "actions": (steps, *widths[1]),
        "rewards": (steps,),
        "terminations": (steps,),
        "truncations": (steps,),
    }
    if episode.executed is not None:
        wanted["executed"] = (steps, *widths[1])
    if episode.labels is not None and (
        episode.labels.ndim != 2 or len(episode.labels) != steps or episode.labels.dtype.kind != "i"
    ):
        raise ValueError(
            f"{where}: labels are {episode.labels.shape} of {episode.labels.dtype}, expected integers ({steps}, labels)"
        )
    for field, shape in wanted.items():
        found = getattr(episode, field).shape
        if found != shape or (field in ("observations", "actions") and len(shape) != 2):
            raise ValueError(f"{where}: {field} has shape {found}, expected {shape} for {steps} actions")


def _check_finite(values: Floats, field: str, where: str) -> None:
    finite = np.isfinite(values)
    if finite.all():
        return
    at = np.argwhere(~finite)[0].tolist()
    raise ValueError(
        f"{where}: {field} has {int((~finite).sum())} values that are not finite, the first at {at} "
        f"({values[tuple(at)]}); remove the episode or repair the file"
    )


def bound_actions(
    episodes: Sequence[Episode],
    low: NDArray[Any],
    high: NDArray[Any],
    *,
    outside: str = "clip",
    name: str = "the data set",
) -> tuple[tuple[Episode, ...], int]:
    """Episodes whose labels lie inside the action space [low, high], and the number of values that did not.

    outside='clip' clips them and warns with the number, outside='refuse' raises.
    """
    check_choice("value for actions outside the space", outside, ("clip", "refuse"))
    for index, episode in enumerate(episodes):
        if episode.actions.shape[1:] != low.shape:
            raise ValueError(
                f"{name}, episode {index}: actions has shape {episode.actions.shape}, expected {low.size} values "
                f"per action"
            )
    beyond = [int(((e.actions < low) | (e.actions > high)).sum()) for e in episodes]
    count = sum(beyond)
    if count == 0:
        return tuple(episodes), 0
    total = sum(episode.actions.size for episode in episodes)
    message = f"{name}: {count} of {total} action values lie outside the action space"
    if outside == "refuse":
        first = next(index for index, number in enumerate(beyond) if number)
        raise ValueError(f"{message}, the first in episode {first}; outside=clip clips them")
    warnings.warn(f"{message}; clipped", stacklevel=2)
    low, high = low.astype(np.float32), high.astype(np.float32)
    return tuple(replace(e, actions=np.clip(e.actions, low, high)) for e in episodes), count
