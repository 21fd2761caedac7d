"""Train an operator by reinforcement learning, in the reduced action space of ActionFilter and in the full one.

    python examples/learn_operator.py                         # the fork: minutes on one core
    python examples/learn_operator.py --env kitchen-complete  # needs a trained policy, and takes hours

The operator commands a few dims of the action (in the fork: one thruster), and a MAC policy trained on demonstrations
fills in the rest. In the fork only passing on the left is rewarded, which the policy does not know. stable-baselines3
trains three arms with the same settings and seeds:

    filter   the reduced action space; the policy is shown the command
    blind    the same space, but the policy is not shown the command, which measures the worth of conditioning
    full     the whole action space, without a policy

The script writes results.json, reward.png and the trained operators (.zip), which
`scripts/shared_autonomy.py operator=sb3` reads.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import stable_baselines3
import torch
from operator_curves import COLOURS, Learned, draw, show, summary
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

import envs.kitchen.goals  # registers the environments
from envs.fork.environment import OBSTACLE, record_fork_episode
from mac_policy import ActionFilter, Demonstrations, Policy, Spaces, TrainSettings, load_policy, make_policy, train
from mac_policy.common.checks import check_count
from mac_policy.common.progress import with_progress
from mac_policy.common.provenance import run_record, write_json
from mac_policy.operators.dims import OperatorDims
from mac_policy.policies.checkpoint import read_config

ARMS = tuple(COLOURS)
COPIES = 8  # environments that are stepped together
PARTS = 10  # progress is shown after each part of a run
HELD_OUT = 10_000  # first seed of the evaluation episodes
SETTINGS: dict[str, dict[str, Any]] = {
    "PPO": {"n_steps": 64, "batch_size": 128, "learning_rate": 1e-3},
    "SAC": {"learning_rate": 1e-3, "learning_starts": 1000},
}


class OneSide(gymnasium.Wrapper):
    """The fork with a reward for passing on the left alone."""

    left = False

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        self.left = False
        return self.env.reset(**options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        if OBSTACLE[0] <= observation[0] <= OBSTACLE[1]:
            self.left = observation[1] > 0
        return observation, float(reward) * self.left, terminated, truncated, info


class Episodes(BaseCallback):
    """Records the reward of every training episode, and the step at which the episode ends."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[int, float]] = []

    def _on_step(self) -> bool:
        ended = [info["episode"]["r"] for info in self.locals["infos"] if "episode" in info]
        self.found += [(self.num_timesteps, reward) for reward in ended]
        return True


def bare(name: str, observation: str) -> gymnasium.Env[Any, Any]:
    if name == "fork":
        return OneSide(gymnasium.make("mac_policy/fork-v0", disable_env_checker=True))
    from envs.kitchen.environment import make  # loads the simulator

    return make(name, observation=observation)


def make_env(arm: str, plain: Callable[[], gymnasium.Env[Any, Any]], policy: Policy, dims: Any) -> Monitor:
    if arm == "full":
        return Monitor(plain())
    return Monitor(ActionFilter(plain(), policy, dims, see_operator=arm == "filter"))


def fork_policy(out: Path) -> Policy:
    """A small MAC policy, trained on 300 scripted demonstrations, half of which pass on each side."""
    demos = Demonstrations.of([record_fork_episode(index=i) for i in range(300)], name="fork", kind="scripted")
    env = gymnasium.make("mac_policy/fork-v0")
    small = {"width": 128, "depth": 2, "query_width": 64}
    policy = make_policy("mac", Spaces.of(env.observation_space, env.action_space), small)
    train(policy, demos, TrainSettings(steps=1500, ema=0.99, validations=3), out, quiet=True)
    return load_policy(out)


def learn(arms: dict[str, Callable[[], Monitor]], options: argparse.Namespace) -> Iterator[tuple[Learned | None, int]]:
    """Train every arm and seed. Yields a run's result at its end (None before) and the steps since the last yield."""
    algorithm = getattr(stable_baselines3, options.algorithm)
    for seed in range(options.seeds):
        for arm, make in arms.items():
            began, episodes = time.perf_counter(), Episodes()
            model = algorithm("MlpPolicy", DummyVecEnv([make] * COPIES), seed=seed, **settings_of(options))
            for part in range(1, PARTS + 1):
                before = model.num_timesteps
                left = options.steps * part // PARTS - before
                if left > 0:
                    model.learn(left, callback=episodes, reset_num_timesteps=before == 0)
                new = min(model.num_timesteps, options.steps) - min(before, options.steps)
                if part < PARTS and new:
                    yield None, new
            model.save(options.out / f"{arm}-s{seed}.zip")
            found = np.array(episodes.found).reshape(-1, 2)
            rewards = measure(make(), lambda seen, model=model: model.predict(seen, deterministic=True)[0], options)
            yield Learned(arm, found[:, 0], found[:, 1], rewards, time.perf_counter() - began), new


def settings_of(options: argparse.Namespace) -> dict[str, Any]:
    """Settings of the algorithm. The fork is not discounted: its reward comes at the end of 12 steps."""
    return SETTINGS[options.algorithm] | {"gamma": 1.0 if options.env == "fork" else 0.99, "device": "cpu"}


def measure(env: gymnasium.Env[Any, Any], act: Callable[[Any], Any], options: argparse.Namespace) -> np.ndarray:
    """(M,) rewards of evaluation episodes, which are the same for every arm."""
    rewards = np.zeros(options.episodes)
    for i in range(options.episodes):
        seen, ended = env.reset(seed=HELD_OUT + i)[0], False
        while not ended:
            seen, reward, terminated, truncated, _ = env.step(act(seen))
            rewards[i] += reward
            ended = terminated or truncated
    return rewards


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kitchens = ("kitchen", *envs.kitchen.goals.GOAL_SETS)
    parser.add_argument("--env", default="fork", choices=("fork", *kitchens), help="kitchen stands for kitchen-mixed")
    parser.add_argument("--policy", type=Path, help="folder of the policy that fills in [fork: a policy is trained]")
    parser.add_argument("--operator-dims", help="dims that the operator holds: k or a list [fork: 1, kitchen: 4]")
    parser.add_argument("--algorithm", default="PPO", choices=SETTINGS)
    parser.add_argument("--steps", type=int, help="environment steps per run [fork: 24000, kitchen: 100000]")
    parser.add_argument("--seeds", type=int, help="number of runs per arm [fork: 5, kitchen: 1]")
    parser.add_argument("--episodes", type=int, default=50, help="number of evaluation episodes")
    parser.add_argument("--arms", nargs="+", default=ARMS, choices=ARMS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, help="folder of the results [runs/learn_operator/<env>]")
    options = parser.parse_args()
    options.env = {"kitchen": "kitchen-mixed"}.get(options.env, options.env)
    usual = {"operator_dims": 1, "steps": 24_000, "seeds": 5}
    if options.env != "fork":
        usual = {"operator_dims": 4, "steps": 100_000, "seeds": 1}
    for name, value in usual.items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    for name in ("steps", "seeds", "episodes", "threads"):
        check_count(name, getattr(options, name))
    options.out = options.out or Path("runs/learn_operator") / options.env
    return options


def ready(options: argparse.Namespace) -> tuple[Policy, Callable[[], gymnasium.Env[Any, Any]]]:
    """The policy that fills in, and a function that makes the environment with the observations of that policy."""
    folder = options.policy or (options.out / "mac" if options.env == "fork" else Path(f"runs/{options.env}/mac-s0"))
    if options.env == "fork" and options.policy is None:
        policy = fork_policy(folder)
    elif not folder.exists():
        raise ValueError(f"no policy at {folder}: run python scripts/train_policy.py task={options.env}")
    else:
        policy = load_policy(folder)
    options.policy = folder
    return policy, partial(bare, options.env, {30: "qpos", 59: "full"}.get(policy.observation_dim, "qpos"))


def main() -> None:
    options = read_options()
    torch.set_num_threads(options.threads)
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    options.out.mkdir(parents=True, exist_ok=True)
    policy, plain = ready(options)
    arms = {arm: partial(make_env, arm, plain, policy, options.operator_dims) for arm in options.arms}
    free = {"action": np.zeros(policy.action_dim, np.float32), "mask": np.zeros(policy.action_dim, bool)}
    alone = measure(ActionFilter(plain(), policy), lambda _: free, options)
    runs: dict[str, list[Learned]] = {arm: [] for arm in arms}
    total = options.steps * options.seeds * len(arms)
    for run in with_progress(learn(arms, options), total, 0, name="training steps"):
        if run is not None:
            runs[run.arm].append(run)
    record = run_record(0, read_config(options.policy)["dataset"]) | {
        "env": options.env,
        "algorithm": options.algorithm,
        "settings": settings_of(options) | {"copies": COPIES},
        "operator_dims": OperatorDims.parse(options.operator_dims, policy.action_dim).fixed,
        "action_dims": policy.action_dim,
        "steps": options.steps,
        "policy": str(options.policy),
        "alone": float(alone.mean()),
        "arms": {arm: summary(found, options.steps) for arm, found in runs.items()},
    }
    show(record)
    picture = options.out / "reward.png"
    draw(runs, record).savefig(picture, dpi=150)
    model = options.out / f"{options.arms[0]}-s0.zip"
    print(f"Reward during training: {picture}")
    print(f"To use a trained operator: python scripts/shared_autonomy.py task={options.env} operator=sb3", end=" ")
    print(f"operator.path={model} operator_dims={options.operator_dims}")
    print(write_json(options.out / "results.json", record))


if __name__ == "__main__":
    try:
        main()
    except ValueError as error:
        sys.exit(f"error: {error}")
