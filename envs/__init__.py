"""The environments: the Franka kitchen with its scripted demonstrator, and the teaching tasks.

Importing this package registers the kitchen's gymnasium ids (`mac_policy/kitchen-v0` takes `tasks=[...]`):

>>> import gymnasium, envs
>>> env = gymnasium.make("mac_policy/kitchen-mixed-v0")  # or envs.kitchen.environment.make("kitchen-mixed")
"""

from gymnasium.envs.registration import register, registry

from envs.kitchen.goals import GOAL_SETS, MAX_EPISODE_STEPS

_ENTRY_POINT = "envs.kitchen.environment:KitchenEnv"


def _register_kitchen() -> None:
    for name in (*GOAL_SETS, "kitchen"):
        if (env_id := f"mac_policy/{name}-v0") not in registry:
            kwargs = {"task": name} if name in GOAL_SETS else {}
            register(env_id, entry_point=_ENTRY_POINT, kwargs=kwargs, max_episode_steps=MAX_EPISODE_STEPS)


_register_kitchen()
if "mac_policy/fork-v0" not in registry:
    register("mac_policy/fork-v0", entry_point="envs.fork.environment:Fork")
