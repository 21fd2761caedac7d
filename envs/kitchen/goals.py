"""The kitchen's goals and sets of goals, as data, and the check of their names."""

from collections.abc import Sequence

from mac_policy.common.checks import check_choice

MICROWAVE = "microwave"
KETTLE = "kettle"
BOTTOM_BURNER = "bottom burner"
TOP_BURNER = "top burner"
LIGHT_SWITCH = "light switch"
SLIDE_CABINET = "slide cabinet"
HINGE_CABINET = "hinge cabinet"

# The order of the goals in the human demonstrations.
CANONICAL_ORDER = (
    MICROWAVE,
    KETTLE,
    BOTTOM_BURNER,
    TOP_BURNER,
    LIGHT_SWITCH,
    SLIDE_CABINET,
    HINGE_CABINET,
)

GOAL_SETS: dict[str, tuple[str, ...]] = {
    "kitchen-complete": (MICROWAVE, KETTLE, LIGHT_SWITCH, SLIDE_CABINET),
    "kitchen-mixed": (MICROWAVE, KETTLE, BOTTOM_BURNER, LIGHT_SWITCH),
    "kitchen-partial": (MICROWAVE, KETTLE, LIGHT_SWITCH, SLIDE_CABINET),
}

MAX_EPISODE_STEPS = 280


def goal_tasks(task: str | Sequence[str]) -> tuple[str, ...]:
    """The goals of a goal set's name, or of a list of names.

    >>> goal_tasks("kitchen-mixed")
    ('microwave', 'kettle', 'bottom burner', 'light switch')
    """
    if isinstance(task, str):
        if task in CANONICAL_ORDER:
            return (task,)
        return GOAL_SETS[check_choice("kitchen task", task, (*GOAL_SETS, *CANONICAL_ORDER))]
    tasks = tuple(check_choice("kitchen task", name, CANONICAL_ORDER) for name in task)
    if not tasks or len(set(tasks)) < len(tasks):
        raise ValueError(f"tasks must be a list of one or more different names, got {list(task)!r}")
    return tasks
