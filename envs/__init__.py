"""The environments: the Franka kitchen with its scripted demonstrator, and the fork, a small teaching task.

Importing this package registers the tasks and the gymnasium ids (`mac_policy/kitchen-v0` takes `tasks=[...]`):

>>> import gymnasium, envs
>>> env = gymnasium.make("mac_policy/kitchen-mixed-v0")  # or envs.kitchen.make("kitchen-mixed")
"""

from gymnasium.envs.registration import register, registry

from envs.fork.task import ForkTask
from envs.kitchen.goals import GOAL_SETS, MAX_EPISODE_STEPS
from envs.kitchen.intent import INTENT
from envs.kitchen.intent_task import IntentTask
from envs.kitchen.task import KITCHENS
from mac_policy.tasks import register_task

KITCHEN = "envs.kitchen.environment:KitchenEnv"
INTENT_KITCHEN = "envs.kitchen.intent_environment:IntentKitchen"

for _task in (*KITCHENS, IntentTask(), ForkTask()):
    register_task(_task)

for _name in (*GOAL_SETS, "kitchen"):
    if (_id := f"mac_policy/{_name}-v0") not in registry:
        register(
            _id,
            entry_point=INTENT_KITCHEN if _name == INTENT else KITCHEN,
            kwargs={"task": _name} if _name in GOAL_SETS and _name != INTENT else {},
            max_episode_steps=MAX_EPISODE_STEPS,
        )
if "mac_policy/fork-v0" not in registry:
    register("mac_policy/fork-v0", entry_point="envs.fork.environment:Fork")
