"""Tasks: objects that bring their demonstrations, environment, expert, drawing and identity.

>>> from mac_policy.tasks import TASKS
>>> "minari" in TASKS
True
"""

from mac_policy.tasks.minari import MinariTask
from mac_policy.tasks.registry import TASKS, register_task
from mac_policy.tasks.task import Task, TaskEnvironment

__all__ = ["TASKS", "MinariTask", "Task", "TaskEnvironment", "register_task"]
