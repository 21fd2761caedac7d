"""The goals of a demonstration and their order."""

from collections.abc import Sequence

import numpy as np

from envs.kitchen.goals import CANONICAL_ORDER, HINGE_CABINET, SLIDE_CABINET, goal_tasks
from mac_policy.common.checks import check_choice

ORDERS = ("default", "random", "canonical")
# Goal sets whose demonstrations are undirected: four of the seven tasks, whatever the goals are.
UNDIRECTED = ("kitchen-mixed", "kitchen-partial")
TASKS_PER_DEMONSTRATION = 4


def demonstration_order(task: str | Sequence[str], order: str, rng: np.random.Generator) -> tuple[str, ...]:
    """The goals of one demonstration, for a goal set or a list of goals.

    kitchen-mixed and kitchen-partial: four goals drawn from the seven; otherwise the goals themselves. 'canonical' is
    the human order (microwave, kettle, burners, light, slide, hinge), 'random' any order in which the slide cabinet
    comes before the hinge cabinet, whose open door blocks it. 'default' is random for kitchen-partial and canonical
    for the others.
    """
    check_choice("order", order, ORDERS)
    tasks = goal_tasks(task)
    if isinstance(task, str) and task in UNDIRECTED:
        tasks = tuple(str(name) for name in rng.permutation(CANONICAL_ORDER)[:TASKS_PER_DEMONSTRATION])
    if order == "default":
        order = "random" if task == "kitchen-partial" else "canonical"
    if order == "canonical":
        return tuple(name for name in CANONICAL_ORDER if name in tasks)
    return slide_before_hinge([str(name) for name in rng.permutation(tasks)])


def slide_before_hinge(tasks: Sequence[str]) -> tuple[str, ...]:
    """The same order, with the two cabinets swapped if the hinge cabinet comes first."""
    tasks = list(tasks)
    if HINGE_CABINET in tasks and SLIDE_CABINET in tasks:
        hinge, slide = tasks.index(HINGE_CABINET), tasks.index(SLIDE_CABINET)
        if hinge < slide:
            tasks[hinge], tasks[slide] = tasks[slide], tasks[hinge]
    return tuple(tasks)
