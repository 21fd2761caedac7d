"""The kitchen's goals as data: their names, sets and orders, and when an observation completes one.

No simulator is loaded.
"""

from collections.abc import Sequence

import numpy as np

from mac_policy.common.checks import check_choice
from mac_policy.demonstrations.episode import Floats

MICROWAVE = "microwave"
KETTLE = "kettle"
BOTTOM_BURNER = "bottom burner"
TOP_BURNER = "top burner"
LIGHT_SWITCH = "light switch"
SLIDE_CABINET = "slide cabinet"
HINGE_CABINET = "hinge cabinet"

# The order of the goals in the human demonstrations.
CANONICAL_ORDER = (MICROWAVE, KETTLE, BOTTOM_BURNER, TOP_BURNER, LIGHT_SWITCH, SLIDE_CABINET, HINGE_CABINET)

GOAL_SETS: dict[str, tuple[str, ...]] = {
    "kitchen-complete": (MICROWAVE, KETTLE, LIGHT_SWITCH, SLIDE_CABINET),
    "kitchen-mixed": (MICROWAVE, KETTLE, BOTTOM_BURNER, LIGHT_SWITCH),
    "kitchen-partial": (MICROWAVE, KETTLE, LIGHT_SWITCH, SLIDE_CABINET),
    "kitchen-intent": CANONICAL_ORDER,
}

MAX_EPISODE_STEPS = 280

ORDERS = ("default", "random", "canonical")
# Goal sets whose demonstrations are undirected: four of the seven tasks, whatever the goals are.
UNDIRECTED = ("kitchen-mixed", "kitchen-partial", "kitchen-intent")
RANDOM_BY_DEFAULT = ("kitchen-partial", "kitchen-intent")
TASKS_PER_DEMONSTRATION = 4
DETOURS = {"detours": 0.03, "max_steps": 340}
"""How demonstrations of kitchen-intent are recorded; detours take time."""

# D4RL's 60 columns: 0-8 robot, 9-29 objects, 30-59 the goal. FrankaKitchen-v1's 59: 0-8 robot positions, 9-17
# robot velocities, 18-38 objects, 39-58 object velocities. Both have the 30 positions.
VIEWS = {
    "qpos": {30: np.arange(30), 60: np.arange(30), 59: np.r_[0:9, 18:39]},
    "full": {59: np.arange(59)},
}
"""For each view and width of a source's observations the columns to keep."""

# The environment's own rule: the columns of the 30 positions that a goal is judged by, and their target values.
GOALS: dict[str, tuple[slice, tuple[float, ...]]] = {
    BOTTOM_BURNER: (slice(11, 13), (-0.88, -0.01)),
    TOP_BURNER: (slice(15, 17), (-0.92, -0.01)),
    LIGHT_SWITCH: (slice(17, 19), (-0.69, -0.05)),
    SLIDE_CABINET: (slice(19, 20), (0.37,)),
    HINGE_CABINET: (slice(20, 22), (0.0, 1.45)),
    MICROWAVE: (slice(22, 23), (-0.75,)),
    KETTLE: (slice(23, 30), (-0.23, 0.75, 1.62, 0.99, 0.0, 0.0, -0.06)),
}
NEAR = 0.3


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


def demonstration_order(task: str | Sequence[str], order: str, rng: np.random.Generator) -> tuple[str, ...]:
    """The goals of one demonstration, for a goal set or a list of goals.

    kitchen-mixed, kitchen-partial and kitchen-intent: four goals drawn from the seven; otherwise the goals themselves.
    'canonical' is the human order (microwave, kettle, burners, light, slide, hinge), 'random' any order in which the
    slide cabinet comes before the hinge cabinet, whose open door blocks it. 'default' is random for kitchen-partial
    and kitchen-intent and canonical for the others.
    """
    check_choice("order", order, ORDERS)
    tasks = goal_tasks(task)
    if isinstance(task, str) and task in UNDIRECTED:
        tasks = tuple(str(name) for name in rng.permutation(CANONICAL_ORDER)[:TASKS_PER_DEMONSTRATION])
    if order == "default":
        order = "random" if task in RANDOM_BY_DEFAULT else "canonical"
    if order == "canonical":
        return tuple(name for name in CANONICAL_ORDER if name in tasks)
    return slide_before_hinge([str(name) for name in rng.permutation(tasks)])


def slide_before_hinge(tasks: Sequence[str]) -> tuple[str, ...]:
    """The same order, with the two cabinets swapped if the hinge cabinet comes first."""
    hinge_first = {HINGE_CABINET, SLIDE_CABINET} <= {*tasks} and tasks.index(HINGE_CABINET) < tasks.index(SLIDE_CABINET)
    swap = {HINGE_CABINET: SLIDE_CABINET, SLIDE_CABINET: HINGE_CABINET} if hinge_first else {}
    return tuple(swap.get(name, name) for name in tasks)


def kitchen_completions(observations: Floats) -> dict[str, int]:
    """The step at which each goal was completed in an episode's observations (T+1, 30 or 59), in the order of steps.

    A goal is completed when its joints come within `NEAR` of their target values.
    """
    positions = observations[:, VIEWS["qpos"][observations.shape[1]]]
    first: dict[str, int] = {}
    for goal, (columns, target) in GOALS.items():
        distance = np.linalg.norm(positions[:, columns] - np.array(target), axis=1)
        done = np.flatnonzero(distance < NEAR)
        if len(done):
            first[goal] = int(done[0])
    return dict(sorted(first.items(), key=lambda item: item[1]))
