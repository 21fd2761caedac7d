"""Are MAC's densities honest? Cross-validated coverage of central intervals on episodes that were not trained on.

    python benchmarks/coverage.py --task kitchen-complete --source human --preset few --folds 5

Each fold trains on the other episodes and fits the spreads to what the run itself leaves out. Then every dim of each
step of the fold's own episodes is asked for, given the dims before it, with nothing commanded and with random subsets
held. "as trained" is the acting network, "fitted" the policy's densities, which with mac.honest_steps do not depend on
how long the acting network is trained.

    python benchmarks/coverage.py --task kitchen-intent --policies runs/kitchen-intent/mac-s? --skip 1200

measures trained policies on the --count episodes of the set that follow the --skip ones they were trained on.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

import envs  # noqa: F401  (registers the tasks)
from benchmarks.options import existing_folder, run, whole
from mac_policy import Demonstrations, Spaces, TrainSettings, load_policy, make_policy, train
from mac_policy.cli.composing import compose
from mac_policy.cli.train_policy import COMMAND
from mac_policy.common.settings import from_mapping
from mac_policy.core import AnyOrderModel
from mac_policy.core.heads.mixed import real_part
from mac_policy.policies import decoding
from mac_policy.policies.data import Batch, TrainingData
from mac_policy.policies.honest import folds
from mac_policy.policies.mac import MAC
from mac_policy.tasks import TASKS

LEVELS = (0.5, 0.9)
Measures = dict[str, list[float]]
"""For each way of holding dims and each model: dims asked for, log-density a dim, and the shares inside."""


def levels_of(policy: MAC, model: AnyOrderModel, batch: Batch, held: Tensor) -> tuple[list[Tensor], float, int]:
    """Levels P(X <= x) of the present step's dims that are not held, along the path, their log-density and number."""
    x, context, frame = policy._read(batch.observations, batch.targets)
    known = torch.zeros_like(x, dtype=torch.bool)
    known[:, : policy.action_dim] = held
    levels, total, count = [], 0.0, 0
    for dim in policy.variables.action_order[: policy.action_dim]:
        answers = model.conditionals(x, evidence=known, context=context, frame=frame)
        conditional = real_part(answers, policy.variables.chunk, 0)
        asked, actions = ~held[:, dim], x[:, : policy.variables.chunk]
        levels.append(decoding.cdf(conditional, actions)[asked, dim])
        total += float(conditional.log_prob(actions)[asked, dim].sum())
        count += int(asked.sum())
        known[:, dim] = True
    return levels, total, count


def measure(policy: MAC, demos: Demonstrations) -> Measures:
    """The measures of one policy."""
    batch = TrainingData.of(demos, policy, torch.device("cpu")).batch(torch.arange(demos.steps))
    generator, found = torch.Generator().manual_seed(0), {}
    nothing = torch.zeros(demos.steps, policy.action_dim, dtype=torch.bool)
    size = torch.randint(1, policy.action_dim, (demos.steps, 1), generator=generator)
    some = torch.rand(nothing.shape, generator=generator).argsort(1).argsort(1) < size
    for what, held in (("nothing held", nothing), ("a random subset held", some)):
        for name, model in (("as trained", policy.model), ("fitted", policy.honest)):
            levels, total, count = levels_of(policy, model, batch, held)
            shares = [float(((torch.cat(levels) - 0.5).abs() <= level / 2).double().mean()) for level in LEVELS]
            found[f"{what}, {name}"] = [count, total / count, *shares]
    return found


def of_policies(options: argparse.Namespace) -> list[Measures]:
    """The measures of trained policies on episodes that they have not seen."""
    task, count = TASKS.find(options.task), options.skip + options.count
    demos = task.load_demonstrations(source=options.source, episodes=count).select(range(options.skip, count))
    rows = []
    for folder in options.policies:
        policy = load_policy(folder)
        if not isinstance(policy, MAC):
            raise ValueError(f"{folder} is no MAC: coverage is that of its densities")
        with torch.no_grad():
            rows.append(measure(policy, demos))
        print(json.dumps({"policy": str(folder), "episodes": len(demos), **rows[-1]}), flush=True)
    return rows


def of_folds(options: argparse.Namespace) -> list[Measures]:
    """The measures of a policy for each fold, trained on the other episodes."""
    config = compose(COMMAND, [f"task={options.task}", f"preset={options.preset}", "policy=mac", *options.options])
    task = TASKS.find(options.task)
    demos = task.load_demonstrations(source=options.source)
    observed = spaces.Box(-np.inf, np.inf, (demos.observation_dim,), np.float32)
    rows = []
    for fold, (rest, test) in enumerate(folds(demos, options.folds, seed=0)):
        if options.only and fold not in options.only:
            continue
        policy = make_policy("mac", Spaces.of(observed, task.action_space_of(demos), task.actions), config["mac"], fold)
        settings = from_mapping(TrainSettings, config["training"], "training settings")
        trained = train(policy, rest, settings, options.runs / f"fold{fold}", seed=fold, quiet=True).policy
        with torch.no_grad():
            rows.append(measure(trained, test))  # type: ignore[arg-type]
        print(json.dumps({"fold": fold, "episodes": len(test), **rows[-1]}), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="kitchen-complete")
    parser.add_argument("--source", default="auto")
    parser.add_argument("--preset", default="few")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--only", type=int, nargs="*", help="folds to train, for two processes")
    parser.add_argument("--options", nargs="*", default=[], help="of train_policy.py, for instance training.steps=100")
    parser.add_argument("--runs", type=Path, default=Path("runs/coverage"))
    parser.add_argument("--policies", type=existing_folder, nargs="*", help="folders of trained policies")
    parser.add_argument("--skip", type=whole(0), default=0, help="episodes that they were trained on [0]")
    parser.add_argument("--count", type=whole(1), default=40, help="episodes that they are measured on [40]")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = of_policies(options) if options.policies else of_folds(options)
    print("| | dims asked for | log-density a dim | inside 50% | inside 90% |\n| --- | --- | --- | --- | --- |")
    for name in rows[0]:
        values = np.array([row[name] for row in rows])
        mean = np.average(values[:, 1:], axis=0, weights=values[:, 0])
        print(f"| {name} | {values[:, 0].sum():.0f} | {mean[0]:.2f} | {mean[1]:.1%} | {mean[2]:.1%} |")


if __name__ == "__main__":
    run(main)
