"""How skill grows with demonstrations, training steps and width, when the operator says what is wanted.

    python benchmarks/skill_growth.py --demonstrations 100 300 1000 3000 --steps 1000 4000 12000 --width 128 256 512

From the setting --base, one option at a time is varied. Each setting trains a MAC
and a BC that are told what is wanted, with the same demonstrations, steps and width, and rolls them out with the dims
--dims held. Writes a table, results.json and skill.png to --out; an interrupted run resumes.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

import envs  # noqa: F401  (registers the tasks)
from benchmarks.options import parsed, run, whole
from mac_policy.cli import train_policy
from mac_policy.cli.composing import compose
from mac_policy.common.files import write_figure
from mac_policy.common.processes import map_processes
from mac_policy.common.provenance import run_record, write_json
from mac_policy.common.statistics import Mean, mean_over_seeds
from mac_policy.evaluation.comparison import ComparisonSettings, plan
from mac_policy.evaluation.episode_store import EpisodeStore
from mac_policy.evaluation.report.summary import rewards_of
from mac_policy.evaluation.report.tables import Grid, write_table
from mac_policy.evaluation.rollout import roll_out
from mac_policy.operators.registry import make_kind
from mac_policy.tasks import TASKS

RUNS = {"mac": ("mac", ("width", "query_width")), "bc-told": ("bc", ("width",))}
"""The runs of a setting: the kind of policy, and the settings that its width is."""


class Setting(NamedTuple):
    """What a policy is trained with."""

    demonstrations: int
    steps: int
    width: int

    @property
    def folder(self) -> str:
        return "-".join(f"{value}-{name}" for name, value in self._asdict().items())


def varied(base: Setting, values: dict[str, list[int]]) -> dict[str, list[Setting]]:
    """For each option: the base with that option replaced by each of its values and its own, in their order."""
    return {
        name: [base._replace(**{name: value}) for value in sorted({*found, getattr(base, name)})]
        for name, found in values.items()
    }


def fit(options: argparse.Namespace, job: tuple[Setting, str]) -> str:
    """Train one policy, unless it is trained; its name."""
    setting, run = job
    kind, widths = RUNS[run]
    torch.set_num_threads(1)
    train_policy.main(
        compose(
            train_policy.COMMAND,
            [
                f"task={options.task}",
                f"preset={options.preset}",
                f"policy={kind}",
                f"name={run}",
                f"seed={options.training_seed}",
                f"data.episodes={setting.demonstrations}",
                f"training.steps={setting.steps}",
                *(f"{kind}.{key}={setting.width}" for key in widths),
                f"runs={options.out / setting.folder}",
            ],
        )
    )
    return f"{setting.folder} {run}"


def reward(options: argparse.Namespace, setting: Setting) -> dict[str, Mean]:
    """The mean reward of each arm."""
    task = TASKS.find(options.task)
    held = options.dims != "none"
    settings = ComparisonSettings(
        arms=tuple(f"operator+{arm}" if held else arm for arm in ("mac-told", "bc-told")),
        training_seeds=(options.training_seed,),
        episodes=options.episodes,
        seed=options.seed,
        envs=max(1, -(-options.episodes // options.workers)),
        runs=options.out / setting.folder,
        workers=options.workers,
    )
    compared = plan(task, make_kind(task.experiment.operator), options.dims, settings, options.out)
    (teams,) = compared.teams.values()
    found = roll_out(compared.rollout, teams, EpisodeStore(options.out / setting.folder), workers=options.workers)
    return {
        arm: mean_over_seeds([rewards_of(each) for each in seeds.values()], shared_rows=True)
        for arm, seeds in found.items()
    }


def main() -> None:
    options = parse()
    base = Setting(*options.base)
    ways = varied(base, {name: getattr(options, name) for name in Setting._fields})
    settings = list(dict.fromkeys(setting for way in ways.values() for setting in way))
    # Demonstrations are recorded once, by the first training: the one that needs most of them.
    settings.sort(key=lambda setting: -setting.demonstrations)
    jobs = [(setting, run) for setting in settings for run in RUNS]
    print(f"1 of {len(jobs)} trained: {fit(options, jobs[0])}", flush=True)
    for done, name in enumerate(map_processes(partial(fit, options), jobs[1:], options.workers), 2):
        print(f"{done} of {len(jobs)} trained: {name}", flush=True)
    found = {setting: reward(options, setting) for setting in settings}
    record: dict[str, Any] = run_record(options.seed) | {
        "task": options.task,
        "dims": options.dims,
        "base": base._asdict(),
        "found": [
            setting._asdict() | {arm: mean._asdict() for arm, mean in found[setting].items()} for setting in found
        ],
    }
    grids = [table(name, way, found) for name, way in ways.items()]
    for grid in grids:
        print(grid.markdown())
    draw(options, ways, found)
    facts = [
        f"Training seed {options.training_seed}, {options.episodes} episodes from seed {options.seed}; the base: "
        f"{base.demonstrations} demonstrations, {base.steps} steps, width {base.width}. Intervals are over episodes."
    ]
    write_table(options.out, f"{options.task}: how skill grows, told what is wanted", facts, grids, [], ("skill",))
    print(write_json(options.out / "results.json", record))


def table(name: str, way: list[Setting], found: dict[Setting, dict[str, Mean]]) -> Grid:
    arms = list(found[way[0]])
    rows = tuple((f"{getattr(setting, name)}", *(cell(found[setting][arm]) for arm in arms)) for setting in way)
    return Grid(f"Reward by {name}", (name, *arms), rows)


def cell(mean: Mean) -> str:
    return f"{mean.mean:.2f}" if mean.ci95 is None else f"{mean.mean:.2f} ({mean.ci95[0]:.2f} to {mean.ci95[1]:.2f})"


def draw(options: argparse.Namespace, ways: dict[str, list[Setting]], found: dict[Setting, dict[str, Mean]]) -> None:
    from matplotlib.figure import Figure

    best = TASKS.find(options.task).best_reward
    figure = Figure(figsize=(3.6 * len(ways), 3.2), layout="constrained")
    for axes, (name, way) in zip(
        figure.subplots(1, len(ways), squeeze=False, sharey=True)[0], ways.items(), strict=True
    ):
        values = [getattr(setting, name) for setting in way]
        for arm, colour in zip(found[way[0]], ("tab:blue", "tab:orange"), strict=True):
            means = [found[setting][arm] for setting in way]
            ends = [(0, 0) if m.ci95 is None else (m.mean - m.ci95[0], m.ci95[1] - m.mean) for m in means]
            lengths = list(zip(*ends, strict=True))
            axes.errorbar(values, [m.mean for m in means], lengths, color=colour, marker="o", capsize=3, label=arm)
        axes.set(xscale="log", ylim=(0, 1.03 * best), xlabel=name)
        axes.set_xticks(values, [str(value) for value in values])
        axes.minorticks_off()
    figure.axes[0].set_ylabel("reward per episode")
    figure.axes[0].legend(loc="lower right")
    write_figure(options.out / "skill.png", figure, dpi=150)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="kitchen-intent")
    parser.add_argument("--preset", default="intent")
    parser.add_argument("--demonstrations", type=whole(1), nargs="+", default=[100, 300, 1000, 3000])
    parser.add_argument("--steps", type=whole(1), nargs="+", default=[1000, 4000, 12000], help="of training")
    parser.add_argument("--width", type=whole(1), nargs="+", default=[128, 256, 512], help="of all layers")
    parser.add_argument(
        "--base",
        type=whole(1),
        nargs=3,
        default=[1000, 12000, 512],
        metavar=("DEMONSTRATIONS", "STEPS", "WIDTH"),
        help="what is not varied [1000 12000 512]",
    )
    parser.add_argument("--dims", default="none", help="that the operator holds [none]")
    parser.add_argument("--training-seed", type=whole(0), default=0)
    parser.add_argument("--episodes", type=whole(1), default=30)
    parser.add_argument("--seed", type=whole(0), default=10_000, help="of the first episode [10000]")
    parser.add_argument("--workers", type=whole(1), default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/skill_growth"))
    return parsed(parser)


if __name__ == "__main__":
    run(main)
