"""Intents: which of the kitchen's tasks somebody wants, in which order. No simulator is loaded."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from envs.kitchen.goals import CANONICAL_ORDER, HINGE_CABINET, SLIDE_CABINET, goal_tasks, slide_before_hinge
from mac_policy.common.checks import check_choice, check_count, check_list
from mac_policy.common.labels import Label

INTENT = "kitchen-intent"
NOTHING = "none"
TASK_LABEL = Label("task", (*CANONICAL_ORDER, NOTHING))
"""The task that is done next; 'none' after the last."""
STREAM = 0x14E7  # separates the draw of an intent from other draws with the same episode seed


def check_intent(intent: Sequence[str]) -> tuple[str, ...]:
    """The wanted tasks in their order; ValueError for an unknown task, a repeated one, or none."""
    wanted = check_list("task.intent", intent)
    if not wanted:
        raise ValueError(
            f"task.intent is empty: name one or more of {', '.join(CANONICAL_ORDER)}, or null to draw them"
        )
    for name in wanted:
        check_choice("kitchen task", name, CANONICAL_ORDER)
    if repeated := [name for name in dict.fromkeys(wanted) if wanted.count(name) > 1]:
        raise ValueError(f"task.intent={wanted} names {', '.join(map(repr, repeated))} twice: name each task once")
    return goal_tasks(wanted)


def check_size(wanted: int) -> int:
    """The number of wanted tasks; ValueError for more than there are."""
    if check_count("task.wanted", wanted) > len(CANONICAL_ORDER):
        raise ValueError(f"task.wanted={wanted} is more than the kitchen's {len(CANONICAL_ORDER)} tasks: give fewer")
    return wanted


def draw_intent(rng: np.random.Generator, size: int = 4) -> tuple[str, ...]:
    """`size` different tasks in any order, the slide cabinet before the hinge cabinet, whose open door blocks it."""
    return slide_before_hinge([str(name) for name in rng.permutation(CANONICAL_ORDER)[:size]])


def intent_of_seed(seed: int, size: int = 4) -> tuple[str, ...]:
    """The intent of the episode with this seed.

    >>> intent_of_seed(10_000)
    ('light switch', 'microwave', 'top burner', 'hinge cabinet')
    """
    return draw_intent(np.random.default_rng([STREAM, seed % 2**63]), size)


def present_wish(intent: Sequence[str], completed: Collection[str]) -> str:
    """The first wanted task that is not completed, 'none' after the last."""
    return next((name for name in intent if name not in completed), NOTHING)


def changed_intent(
    intent: Sequence[str], completed: Collection[str], present: str, preference: Sequence[str]
) -> tuple[str, ...]:
    """The intent after a change of mind: as many tasks as were left, the first ones of `preference` that can be wanted.

    Wanted tasks that are completed stay in the intent, in front. The `present` wish is dropped, or comes last where too
    few others are left; the slide cabinet cannot be wanted anew once the hinge cabinet's door is open.
    """
    done = tuple(name for name in intent if name in completed)
    left = len(intent) - len(done)
    blocked = {SLIDE_CABINET} if HINGE_CABINET in completed else set()
    able = [name for name in preference if name not in {*completed, *blocked, present}]
    return done + slide_before_hinge([*able, present][:left])


def next_tasks(completions: Mapping[str, int], steps: int) -> NDArray[np.int64]:
    """(steps,): at each step of an episode the class of the task that is completed next, 'none' after the last.

    completions: for each completed task the first observation, 0..steps, that shows it completed
    """
    labels = np.full(steps, TASK_LABEL.code(NOTHING), np.int64)
    for task, at in sorted(completions.items(), key=lambda item: -item[1]):
        labels[:at] = TASK_LABEL.code(task)
    return labels
