"""What the actions of a data set mean: places, offsets, or neither, by what they say of the next observation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from mac_policy.common.correlation import LEAST_OFFSET, correlation, transitions
from mac_policy.demonstrations.demonstrations import Demonstrations

LEAST_PLACE = 0.8
"""Correlation of an action with the next reading from which the action counts as a place."""
CLOSE = 0.03
"""Readings whose correlations differ by less are as close; of these the one with the action's own index is named."""


class DimMeaning(NamedTuple):
    """What an action dim says of the observation that it is closest to.

    place, offset: its largest correlation with a next reading, and with the change of a reading; moves: the index of
    that reading
    """

    dim: int
    meaning: Literal["absolute", "relative", "unknown"]
    moves: int
    place: float
    offset: float


def meanings(demonstrations: Demonstrations) -> list[DimMeaning]:
    """The meaning of each action dim, judged by correlations over all steps.

    A correlation tells places from offsets and finds the reading that a dim moves. It does not tell a relative action
    from a delta, and no scale: with noisy readings the slope of a regression is not the scale of an action.

    >>> meanings(demonstrations)[0].meaning                       # reads demonstrations   # doctest: +SKIP
    'relative'
    """
    actions, before, after = transitions(
        demonstrations.observations, demonstrations.actions, demonstrations.episode_index
    )
    places, offsets = correlation(actions, after), correlation(actions, after - before)
    found = []
    for dim, (place, offset) in enumerate(zip(np.abs(places), np.abs(offsets), strict=True)):
        is_place = place.max() >= LEAST_PLACE and place.max() >= offset.max()
        is_offset = not is_place and offset.max() >= LEAST_OFFSET
        best = place if is_place or (not is_offset and place.max() > offset.max()) else offset
        meaning: Literal["absolute", "relative", "unknown"] = (
            "absolute" if is_place else "relative" if is_offset else "unknown"
        )
        own = dim < len(best) and best[dim] > best.max() - CLOSE
        moves = dim if own else int(best.argmax())
        found.append(DimMeaning(dim, meaning, moves, float(place.max()), float(offset.max())))
    return found


def verdict(found: Sequence[DimMeaning]) -> Literal["absolute", "relative", "unknown"]:
    """What all dims together are: what most of them are, if every other one leans that way, too."""
    for meaning, sign in (("absolute", 1), ("relative", -1)):
        agreed = sum(each.meaning == meaning for each in found)
        moving = [each for each in found if each.place or each.offset]
        if 2 * agreed > len(found) and all(sign * (each.place - each.offset) > 0 for each in moving):
            return meaning  # type: ignore[return-value]
    return "unknown"
