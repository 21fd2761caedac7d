"""How good is the belief of MAC policies on held-out demonstrations, replayed as commands of some dims?

    python benchmarks/belief.py runs/kitchen-intent/mac-s? --episodes 1200 --dims none 0,1 0,1,2,3

For each set of dims: how often the likeliest class is right, at all steps and by the middle of a stroke (the second
half of the steps between two changes of the class); the mean log-likelihood of the true class; and how far the belief
in the likeliest class is from how often it is right, as the mean over steps (ECE) and in the worst of ten bins that
hold at least a hundredth of the steps. Means over the policies with Student's 95% intervals; the rule is the fitted
one. The worst bin of one policy holds few episodes and is mostly chance: the last column takes the steps of all
policies together. Writes results.json and belief.png to --out.

The episodes are those that a training held out for validation, or, with --unseen N, the N episodes of the set that
follow the --episodes of the training.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import envs  # noqa: F401  (registers the tasks)
from benchmarks.options import add_commanded, parsed, run, whole
from mac_policy import Demonstrations, load_policy
from mac_policy.common.files import write_figure
from mac_policy.common.provenance import run_record, write_json
from mac_policy.common.statistics import mean_over_seeds
from mac_policy.operators.dims import OperatorDims
from mac_policy.policies import intent
from mac_policy.policies.checkpoint import read_config
from mac_policy.policies.mac import MAC
from mac_policy.tasks import TASKS

BINS = 10
RARE = 0.01
"""A bin with a smaller share of the steps is left out of the worst one."""
TOGETHER = "worst bin of all"
WHAT = ("right", "right by mid-stroke", "log-likelihood", "ECE", "worst bin")


def held_out(folder: Path, demos: Demonstrations) -> Demonstrations:
    """The episodes that a run validated on, without those that its rule was fitted to."""
    config = read_config(folder)
    if (trained_on := config["dataset"].get("sha256")) != demos.source.sha256:
        raise ValueError(
            f"{folder} was trained on other demonstrations ({config['dataset'].get('episodes')} episodes, sha256 "
            f"{trained_on}) than these {len(demos)}: give --episodes and --source as in its training"
        )
    training = config["training"]
    share = training["training"]["validation"]
    if not share:
        raise ValueError(f"{folder} held no episodes out: train with training.validation above 0")
    found = demos.split(1 - share, training["seed"])[1]
    if len(found) <= intent.EPISODES:
        raise ValueError(
            f"{folder} held {len(found)} episodes out, and the rule of its belief was fitted to the first "
            f"{intent.EPISODES}: train with more demonstrations, or with a larger training.validation"
        )
    return found.select(range(intent.EPISODES, len(found)))


def unseen(options: argparse.Namespace, trained: Demonstrations) -> Demonstrations:
    """The --unseen episodes of a set that follow those of the training."""
    count = len(trained) + options.unseen
    demos: Demonstrations = TASKS.find(options.task).load_demonstrations(source=options.source, episodes=count)
    return demos.select(range(len(trained), count))


def second_half(truth: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(T,): the steps in the second half of the run of equal classes that they belong to."""
    starts = np.flatnonzero(np.diff(truth, prepend=-9))
    lengths = np.diff([*starts, len(truth)])
    since = np.arange(len(truth)) - np.repeat(starts, lengths)
    return since >= np.repeat(lengths, lengths) / 2


class Bins(NamedTuple):
    """Of the steps in each bin of the belief in the likeliest class, (BINS,) each."""

    right: NDArray[np.float64]  # in how many it is right
    believed: NDArray[np.float64]  # the sum of the beliefs
    steps: NDArray[np.float64]

    def means(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The share in which it is right and the mean belief."""
        steps = np.maximum(self.steps, 1)
        return self.right / steps, self.believed / steps

    def worst(self) -> float:
        """The greatest distance of both, of the bins that are not rare."""
        right, believed = self.means()
        return float(np.abs(right - believed)[self.common()].max())

    def common(self) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = self.steps >= RARE * self.steps.sum()
        return found


def measure(policy: MAC, demos: Demonstrations, mask: NDArray[np.bool_], most: int) -> tuple[dict[str, float], Bins]:
    """The measures of one policy with these dims held, and its bins."""
    believed, truths, late = [], [], []
    for episode in range(min(most, len(demos))):
        labels = demos.select([episode]).labels
        if labels is None:
            raise ValueError(f"{demos.source.name} has no labels")
        truth = labels[:, 0]
        belief = policy.belief_rules[0].through(intent.replayed(policy, demos, episode, 0, mask))
        known = truth >= 0
        believed.append(belief[known])
        truths.append(truth[known])
        late.append(second_half(truth)[known])
    belief, truth, stroke = np.concatenate(believed), np.concatenate(truths), np.concatenate(late)
    sure, right = belief.max(1), belief.argmax(1) == truth
    places = np.minimum((sure * BINS).astype(int), BINS - 1)
    bins = Bins(*(np.bincount(places, part, BINS).astype(float) for part in (right, sure, np.ones(len(sure)))))
    gaps = np.abs(bins.right - bins.believed)
    found = {
        "right": right.mean(),
        "right by mid-stroke": right[stroke].mean(),
        "log-likelihood": np.log(np.maximum(belief[np.arange(len(truth)), truth], 1e-12)).mean(),
        "ECE": gaps.sum() / len(sure),
        "worst bin": bins.worst(),
    }
    return {name: float(value) for name, value in found.items()}, bins


def main() -> None:
    options = parse()
    demos = TASKS.find(options.task).load_demonstrations(source=options.source, episodes=options.episodes)
    record: dict[str, Any] = run_record(0) | {"dims": {}, "policies": [str(folder) for folder in options.policies]}
    fresh = unseen(options, demos) if options.unseen else None
    curves = {}
    print(f"| dims held | {' | '.join(WHAT)} | {TOGETHER} |\n| --- |{' --- |' * (len(WHAT) + 1)}")
    for spec in options.dims:
        found, bins = [], []
        for folder in options.policies:
            policy = load_policy(folder)
            if not isinstance(policy, MAC) or not policy.categories:
                raise ValueError(f"{folder} infers no labels")
            mask = OperatorDims.parse(0 if spec == "none" else spec, policy.action_dim).masks(np.array([0]))[0]
            left = held_out(folder, demos)  # checks that these are the demonstrations of its training
            rest, most = (left, options.most) if fresh is None else (fresh, len(fresh))
            values, of_bins = measure(policy, rest, mask, most)
            found.append(values)
            bins.append(of_bins)
        cells = {name: mean_over_seeds([np.array([each[name]]) for each in found]) for name in WHAT}
        curves[spec] = together = Bins(*np.sum(bins, axis=0))
        record["dims"][spec] = {name: cell._asdict() for name, cell in cells.items()} | {TOGETHER: together.worst()}
        print(f"| {spec} | {' | '.join(map(shown, cells.values()))} | {together.worst():.3f} |", flush=True)
    draw(curves, options.out)
    print(write_json(options.out / "results.json", record))


def shown(cell: Any) -> str:
    ends = "" if cell.ci95 is None else f" ({cell.ci95[0]:.3f} to {cell.ci95[1]:.3f})"
    return f"{cell.mean:.3f}{ends}"


def draw(curves: dict[str, Bins], out: Path) -> None:
    """Right against believed, of all policies together."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2, 4.0), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    for spec, bins in curves.items():
        right, believed = bins.means()
        some = bins.common()
        axes.plot(believed[some], right[some], marker="o", label=f"held: {spec}")
    axes.set(
        xlabel="belief in the likeliest class", ylabel="share of steps in which it is right", xlim=(0, 1), ylim=(0, 1)
    )
    axes.legend(loc="upper left")
    write_figure(out / "belief.png", figure, dpi=150)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "policies", type=Path, nargs="+", help="folders of MAC policies with labels, one a training seed"
    )
    add_commanded(parser)
    parser.add_argument("--most", type=whole(1), default=60, help="held-out episodes of a policy at most [60]")
    parser.add_argument("--unseen", type=whole(1), help="episodes that follow those of the training")
    parser.add_argument("--out", type=Path, default=Path("runs/belief"))
    return parsed(parser)


if __name__ == "__main__":
    run(main)
