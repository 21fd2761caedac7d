"""Which dims should a person hold? The reward of an arm for every pair of dims, and a greedy search for the best k.

    python benchmarks/which_dims.py --task kitchen-intent --arm operator+mac --episodes 10 --greedy 4

The matrix has single dims on its diagonal. The search adds at each step the dim with the highest reward. It selects
on the episodes from --seed on; its sets are rolled out again from --fresh-seed on, where their means are not biased by
the selection. Writes a table, results.json and pairs.png to --out; an interrupted run resumes.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import envs  # noqa: F401  (registers the tasks)
from benchmarks.options import run, whole
from mac_policy.common.files import write_figure
from mac_policy.common.provenance import run_record, write_json
from mac_policy.common.statistics import Mean, mean_over_seeds, with_interval
from mac_policy.evaluation.comparison import ComparisonSettings, plan
from mac_policy.evaluation.episode_store import EpisodeStore
from mac_policy.evaluation.report.summary import rewards_of
from mac_policy.evaluation.report.tables import Grid, write_table
from mac_policy.evaluation.rollout import roll_out
from mac_policy.operators.registry import make_kind
from mac_policy.tasks import TASKS, Task


def reward(options: argparse.Namespace, dims: Sequence[int], seed: int) -> Mean:
    """The mean reward of the arm with these dims held, in the episodes from `seed` on."""
    task = TASKS.find(options.task)
    settings = ComparisonSettings(
        arms=(options.arm,),
        training_seeds=tuple(options.training_seeds),
        episodes=options.episodes,
        seed=seed,
        envs=max(1, -(-options.episodes // options.workers)),
        runs=options.runs,
        workers=options.workers,
    )
    compared = plan(task, make_kind(task.experiment.operator), list(dims), settings, options.out)
    (teams,) = compared.teams.values()
    found = roll_out(compared.rollout, teams, EpisodeStore(options.out), workers=options.workers)
    return mean_over_seeds([rewards_of(episodes) for episodes in found[options.arm].values()], shared_rows=True)


def pairs(options: argparse.Namespace, count: int) -> NDArray[np.float64]:
    """(n, n), symmetric: the mean reward with two dims held, or with one."""
    matrix = np.zeros((count, count))
    for i in range(count):
        for j in range(i, count):
            matrix[i, j] = matrix[j, i] = reward(options, sorted({i, j}), options.seed).mean
    return matrix


def greedy(options: argparse.Namespace, count: int) -> list[list[int]]:
    """Sets of 1, 2, ... dims, each the one before with the dim that adds most."""
    found: list[list[int]] = [[]]
    for _ in range(options.greedy):
        candidates = [sorted({*found[-1], dim}) for dim in range(count) if dim not in found[-1]]
        found.append(max(candidates, key=lambda dims: reward(options, dims, options.seed).mean))
    return found[1:]


def tables(task: Task, matrix: NDArray[np.float64] | None, best: Sequence[tuple[list[int], Mean]]) -> list[Grid]:
    """The matrix and the sets that were selected."""
    count = 0 if matrix is None else len(matrix)
    names = task.actions.names or tuple(map(str, range(count)))
    rows = (
        [(f"{i} {names[i]}", *(f"{value:.2f}" for value in matrix[i])) for i in range(count)]
        if matrix is not None
        else []
    )
    found = [Grid("Reward by the two dims that are held", ("", *map(str, range(count))), tuple(rows))] if rows else []
    sets = [
        (str(len(dims)), ", ".join(map(str, dims)), with_interval({"mean": mean.mean, "ci95": mean.ci95}, ".2f"))
        for dims, mean in best
    ]
    return found + ([Grid("Greedy search, on fresh episodes", ("dims", "held", "reward"), tuple(sets))] if sets else [])


def draw(matrix: NDArray[np.float64], title: str, best: float, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2, 4.4), layout="constrained")
    axes = figure.add_subplot()
    shown = axes.imshow(matrix, vmin=0, vmax=best, cmap="viridis")
    for i, j in np.ndindex(matrix.shape):
        axes.text(j, i, f"{matrix[i, j]:.1f}", ha="center", va="center", fontsize=7, color="white")
    axes.set_xticks(range(len(matrix)))
    axes.set_yticks(range(len(matrix)))
    axes.set(title=title, xlabel="dim held", ylabel="dim held")
    figure.colorbar(shown, label="reward per episode")
    write_figure(path, figure, dpi=150)


def main() -> None:
    options = parse()
    task = TASKS.find(options.task)
    if task.action_space is None:
        raise ValueError(f"task={task.name} does not say what its action space is")
    count = task.action_space.shape[0]
    if options.greedy > count:
        raise ValueError(f"--greedy {options.greedy} is more than the {count} dims of task={task.name}")
    matrix = None if options.no_pairs else pairs(options, count)
    best = [(dims, reward(options, dims, options.fresh_seed)) for dims in greedy(options, count)]
    title = f"{task.name}: which dims should be held? {options.arm}"
    facts = [
        f"{options.episodes} episodes for each of the training seeds {options.training_seeds}; chosen on the episodes "
        f"from seed {options.seed} on, measured from seed {options.fresh_seed} on."
    ]
    found = tables(task, matrix, best)
    record: dict[str, Any] = run_record(options.seed) | {
        "task": task.name,
        "arm": options.arm,
        "episodes": options.episodes,
        "training_seeds": options.training_seeds,
        "pairs": None if matrix is None else matrix.tolist(),
        "greedy": [
            {"dims": dims, "mean": mean.mean, "ci95": mean.ci95, "per_seed": mean.per_seed} for dims, mean in best
        ],
    }
    for grid in found:
        print(grid.markdown())
    if matrix is not None:
        draw(matrix, title, task.best_reward, options.out / "pairs.png")
    write_table(options.out, title, facts, found, [], () if matrix is None else ("pairs",))
    print(write_json(options.out / "results.json", record))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="kitchen-intent")
    parser.add_argument("--arm", default="operator+mac", help="see mac_policy.evaluation.arms")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--training-seeds", type=whole(0), nargs="+", default=[0])
    parser.add_argument("--episodes", type=whole(1), default=10)
    parser.add_argument("--seed", type=whole(0), default=70_000, help="of the first episode that is selected on")
    parser.add_argument("--fresh-seed", type=whole(0), default=80_000, help="of the first episode that is measured on")
    parser.add_argument("--greedy", type=whole(0), default=4, help="size of the largest set of the search")
    parser.add_argument("--no-pairs", action="store_true")
    parser.add_argument("--workers", type=whole(1), default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/which_dims"))
    return parser.parse_args()


if __name__ == "__main__":
    run(main)
