"""Rolling out a policy alone in a list of environments, one batched policy call a step."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
import torch

from mac_policy.policies.base import Policy


@dataclass
class Rollouts:
    """E episodes of one policy."""

    rewards: list[float] = field(default_factory=list)
    completed: list[tuple[str, ...]] = field(default_factory=list)
    call_ms: list[float] = field(default_factory=list)


def make_env(task: str, observation_dim: int, start: str) -> gymnasium.Env[Any, Any]:
    """A task's environment with the observation view that the policy was trained on."""
    if task == "fork":
        from envs.fork import Fork

        return Fork()
    from envs.kitchen import make

    return make(task, observation={30: "qpos", 59: "full"}.get(observation_dim, "qpos"), start=start)


def roll_out(
    policy: Policy, environments: list[gymnasium.Env[Any, Any]], episodes: int, seed: int, deterministic: bool = False
) -> Rollouts:
    """Episodes seed, seed + 1, ...: each is the same for every policy. An environment that is done takes the next."""
    generator = torch.Generator().manual_seed(seed)
    found = Rollouts([0.0] * episodes, [()] * episodes)
    slots = [_Slot(env, i) for i, env in enumerate(environments[:episodes])]
    waiting = iter(range(len(slots), episodes))
    observations = np.stack([slot.env.reset(seed=seed + slot.episode)[0] for slot in slots])
    state = policy.initial_state(len(slots))
    while any(slot.running for slot in slots):
        began = time.perf_counter()
        actions, state = policy.step(observations, state, deterministic=deterministic, generator=generator)
        found.call_ms.append(1e3 * (time.perf_counter() - began))
        fresh = np.zeros(len(slots), bool)
        for row, slot in enumerate(slots):
            if not slot.running:
                continue
            observations[row], reward, terminated, truncated, info = slot.env.step(actions[row])
            found.rewards[slot.episode] += float(reward)
            if terminated or truncated:
                found.completed[slot.episode] = tuple(info.get("completed", ()))
                slot.episode = next(waiting, -1)
                if slot.running:
                    fresh[row] = True
                    observations[row], _ = slot.env.reset(seed=seed + slot.episode)
        state = state.reset(fresh)
    return found


@dataclass
class _Slot:
    env: gymnasium.Env[Any, Any]
    episode: int

    @property
    def running(self) -> bool:
        return self.episode >= 0
