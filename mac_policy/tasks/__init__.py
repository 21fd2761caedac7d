"""Tasks: objects that bring their demonstrations, environment, expert, drawing and identity.

>>> from mac_policy.tasks import TASKS
>>> "minari" in TASKS
True
"""

from mac_policy.tasks.minari import MinariTask
from mac_policy.tasks.task import TASKS, RendererMissing, Task, TaskEnvironment, register_task

__all__ = ["TASKS", "MinariTask", "RendererMissing", "Task", "TaskEnvironment", "register_task"]
