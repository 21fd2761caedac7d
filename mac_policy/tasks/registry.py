"""The tasks by name."""

from __future__ import annotations

from mac_policy.common.registry import Registry
from mac_policy.tasks.minari import MinariTask
from mac_policy.tasks.task import Task

TASKS: Registry[Task] = Registry("task", "mac_policy.tasks")
"""Each task with its default options."""


def register_task(task: Task) -> Task:
    """Make a task known by its name; returns the task.

    >>> from mac_policy.tasks import MinariTask, register_task
    >>> register_task(MinariTask("pen", dataset="D4RL/pen/human-v2"))   # changes the registry   # doctest: +SKIP
    """
    if not isinstance(task, Task):
        raise ValueError(f"a task must be an instance of mac_policy.tasks.Task, got {task!r}")
    return TASKS.register(task.name, task)


register_task(MinariTask())
