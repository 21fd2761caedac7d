"""What is a plan worth under a command, and how fast is it dropped when the command contradicts it?

    python benchmarks/plans.py runs/kitchen-complete/mac-s2? --operator runs/kitchen-complete/bc-s20 --dims 0 1 2 3

Three ways of carrying a chunk out while an operator holds dims: `kept while it agrees` (the policy as it is), `dropped
at every step` (a command ends the chunk) and `always kept`. Agreement: a BC operator; tasks done and how smooth the
filled dims are (mean absolute second difference of the targets, rad or m). Contradiction: from one step of each episode
on, the command pulls a share `--pull` of the action's range away from what the operator wanted; steps until the plan is
made anew.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

import envs  # noqa: F401  (registers the tasks)
from mac_policy import Policy, load_policy
from mac_policy.common.statistics import mean_over_seeds
from mac_policy.tasks import TASKS

WAYS = {"kept while it agrees": {}, "dropped at every step": {"plans": 0.0}, "always kept": {"margin": 1e9}}


def prepared(folder: Path, way: str) -> Policy:
    policy = load_policy(folder)
    changes = dict(WAYS[way])
    margin = changes.pop("margin", None)
    policy.settings = replace(policy.settings, **changes)
    if margin is not None:
        policy.plan_margin.fill_(margin)  # type: ignore[union-attr, operator]
        policy.plan_floor.fill_(-margin)  # type: ignore[union-attr, operator]
    return policy


def episodes(policy: Policy, operator: Policy, environments: list, options: argparse.Namespace, pull: float) -> dict:
    """Roll out one group of episodes."""
    n, space = len(environments), policy.spaces.action
    seen = np.stack([env.reset(seed=options.seed + i)[0] for i, env in enumerate(environments)])
    held = np.tile(np.isin(np.arange(policy.action_dim), options.dims), (n, 1))
    commanding, filling = operator.initial_state(n), policy.initial_state(n)
    random, running, reward = torch.Generator().manual_seed(0), np.ones(n, bool), np.zeros(n)
    begin = 40 + np.arange(n)  # every phase of a chunk alike
    waited, undecided = np.full(n, np.nan), np.ones(n, bool)
    targets, step = [], 0
    while running.any():
        command, commanding = operator.step(seen, commanding, generator=random)
        pulling = begin <= step
        if pull:
            away = np.where(command > 0, -1.0, 1.0) * pull * (space.high - space.low)
            command = np.clip(np.where(pulling[:, None], command + away, command), space.low, space.high)
            command = command.astype(np.float32)
        age = filling.age.copy()
        action, filling = policy.step(seen, filling, command, held, generator=random)
        new = pulling & (filling.age == 1) & undecided
        # A chunk that was used up when the pull began says nothing about being dropped: its row is left out.
        tells = new & ~((age >= policy.settings.execute) & (step == begin))
        waited[tells] = (step - begin)[tells]
        undecided &= ~new
        targets.append(np.where(running[:, None], policy.variables.places(seen, action), np.nan))
        for row in np.flatnonzero(running):
            seen[row], gained, terminated, truncated, _ = environments[row].step(action[row])
            reward[row] += gained
            running[row] = not (terminated or truncated)
        step += 1
        if pull and step > 130:
            break
    free = ~np.isin(np.arange(policy.action_dim), options.dims)
    rough = np.abs(np.diff(np.array(targets)[..., free], 2, axis=0))
    return {"reward": reward, "roughness": np.nanmean(rough, axis=(0, 2)), "waited": waited}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policies", type=Path, nargs="+", help="folders of the training seeds of a MAC with plans")
    parser.add_argument("--operator", type=Path, required=True, help="folder of a BC policy")
    parser.add_argument("--task", default="kitchen-complete")
    parser.add_argument("--dims", type=int, nargs="+", default=[0, 1, 2, 3], help="that the operator holds")
    parser.add_argument("--pull", type=float, default=0.25, help="of the action's range")
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--seed", type=int, default=10_000, help="of the first episode")
    options = parser.parse_args()
    torch.set_num_threads(1)
    environments = [TASKS.find(options.task).make() for _ in range(options.episodes)]
    operator = load_policy(options.operator)
    print("| plan | tasks | roughness of the filled dims | steps until a contradicted plan is made anew |")
    print("| --- | --- | --- | --- |")
    for way in WAYS:
        found: dict[str, list] = {"reward": [], "roughness": [], "waited": []}
        for folder in options.policies:
            policy = prepared(folder, way)
            agreeing = episodes(policy, operator, environments, options, 0.0)
            waited = episodes(policy, operator, environments, options, options.pull)["waited"]
            for name in ("reward", "roughness"):
                found[name].append(agreeing[name])
            found["waited"].append(waited[np.isfinite(waited)])
        cells = []
        for name in ("reward", "roughness", "waited"):
            mean = mean_over_seeds([values for values in found[name] if len(values)])
            ends = "" if mean.ci95 is None else f" ({mean.ci95[0]:.3g} to {mean.ci95[1]:.3g})"
            cells.append(f"{mean.mean:.3g}{ends}")
        print(f"| {way} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
