"""The wish and the belief in a film: a row for each goal, with what is wanted, what is done, and what is assumed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mac_policy.evaluation.report.pictures import OPERATOR, POLICY, text_image

ROW, NAME = 14, 0.62
"""Height of a row in pixels, and the share of its width that the name takes."""
OPEN, DONE, OTHER, MISTAKE = "black", "#0a7d20", "0.65", "#c01818"
"""Colours of what is wanted, wanted and done, not wanted, and done without being wanted."""


class Wishes(NamedTuple):
    """What is shown at a step."""

    intent: tuple[str, ...]
    """What is wanted, in order."""
    completed: Collection[str]
    wish: str | None = None
    """What the operator wants at present, marked."""
    belief: Mapping[str, float] = {}
    """The probability that the policy gives to each goal, as bars; {} where it infers nothing."""


def draw_wishes(goals: Sequence[str], shown: Wishes, width: int) -> NDArray[np.uint8]:
    """(rows * ROW, width, 3): the wanted goals in their order, then the others."""
    ordered = [*shown.intent, *(goal for goal in goals if goal not in shown.intent)]
    return np.concatenate([_row(goal, shown, width) for goal in ordered])


def _row(goal: str, shown: Wishes, width: int) -> NDArray[np.uint8]:
    wanted, done = goal in shown.intent, goal in shown.completed
    colour = (DONE if wanted else MISTAKE) if done else (OPEN if wanted else OTHER)
    number = f"{shown.intent.index(goal) + 1} " if wanted else "   "
    name = round(NAME * width)
    image = np.full((ROW, width, 3), 255, np.uint8)
    image[:, 6:name] = text_image(f"{number}{goal}{' (done)' if done else ''}", name - 6, ROW, 8.0, colour=colour)
    if goal == shown.wish:
        image[3 : ROW - 3, 1:6] = OPERATOR
    bar = round(shown.belief.get(goal, 0.0) * (width - name - 4))
    image[3 : ROW - 3, name : name + bar] = POLICY
    return image
