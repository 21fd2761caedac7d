"""Train policies on a task's demonstrations."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from mac_policy.cli.command import Command, options_of, task_of
from mac_policy.common.checks import check_choice, check_list, check_mapping
from mac_policy.common.labels import Ahead, AnyLabel
from mac_policy.common.provenance import command_words
from mac_policy.common.settings import FolderName, Names, Natural, Settings, from_mapping
from mac_policy.demonstrations.demonstrations import Demonstrations
from mac_policy.demonstrations.resolve import DataSettings
from mac_policy.policies.fit import TrainResult, train
from mac_policy.policies.policy import Policy
from mac_policy.policies.registry import POLICIES, find_policy, make_policy, make_settings
from mac_policy.policies.spaces import Spaces
from mac_policy.tasks import TASKS, Task
from mac_policy.tasks.experiment import FILLER_SEED, PlannedRun
from mac_policy.training.fabric import Fabric, make_fabric
from mac_policy.training.loop import TrainingDiverged
from mac_policy.training.settings import TrainSettings


@dataclass(frozen=True)
class Options(Settings):
    """See configs/train_policy.yaml."""

    train: Names | None
    seed: Natural
    resume: bool
    labels: bool | None
    ahead: Mapping[str, Any] | None
    name: FolderName | None
    runs: Path


def main(config: dict[str, Any]) -> None:
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    task = task_of(config)
    options, settings = check(config, task)
    fabric = make_fabric(settings)
    with fabric.rank_zero_first():  # the first process may have to fetch or record the demonstrations
        demos = task.load_demonstrations(**config["data"])
    runs = plan(options, task.experiment.runs)
    policies = [make(options, task, run, config[run.kind], demos) for run in runs]  # mistakes show now
    results = [
        train_one(options, task, run, policy, demos, settings, fabric)
        for run, policy in zip(runs, policies, strict=True)
    ]
    if fabric.is_global_zero:
        report(options, task, results)


def check(config: dict[str, Any], task: Task) -> tuple[Options, TrainSettings]:
    """The options and the settings of training; a mistake shows before anything is fetched or recorded."""
    options = options_of(Options, config)
    if options.labels and not task.labels:
        raise ValueError(f"labels=true, but task={task.name} has no labels")
    if labels_ahead(options) and options.train is None:
        raise ValueError(
            "ahead=... needs policy=mac, or another kind: the default trains a BC that operates, and nobody would tell "
            "it a place"
        )
    settings = from_mapping(TrainSettings, config["training"], "training settings")
    from_mapping(DataSettings, config["data"], "data")
    for kind in POLICIES:
        if kind in config:
            make_settings(kind, check_mapping(kind, config[kind]))
    for kind in options.train or ():
        check_choice("policy in train", kind, POLICIES)
    runs = plan(options, task.experiment.runs)
    folders = [f"{run.run}-s{options.seed + run.seed}" for run in runs]
    if twice := next((folder for folder in folders if folders.count(folder) > 1), None):
        kinds = ", ".join(run.kind for run, folder in zip(runs, folders, strict=True) if folder == twice)
        raise ValueError(
            f"name={options.name} gives the folder {twice} to several runs ({kinds}): choose one of them, as in "
            f"policy={runs[-1].kind}"
        )
    for run in runs:
        needed = {field.name for field in fields(find_policy(run.kind).settings_class)}
        if not needed <= set(config.get(run.kind) or ()):  # a preset has some settings of kinds that are not chosen
            raise ValueError(f"train names {run.kind}, whose settings are missing: choose policy={run.kind}")
        make_settings(run.kind, {**config[run.kind], **run.settings})
    return options, settings


def labels_ahead(options: Options) -> list[Ahead]:
    """The labels of real values that `ahead` asks for."""
    found = []
    for name, entry in (options.ahead or {}).items():
        parts = check_list(f"ahead.{name}", entry)
        if len(parts) != 2:
            raise ValueError(f"ahead.{name} must be [index in the observation, steps], got {parts}")
        found.append(Ahead(name, *parts))
    return found


def plan(options: Options, experiment: Sequence[PlannedRun]) -> list[PlannedRun]:
    """The runs to train: those of the task's experiment, or one of each kind in `train`, where a second one of a kind
    gets another seed. A run with the name of one of the experiment has labels if that one has."""
    if options.train is None:
        runs = [replace(run, name=run.name if options.name is None else str(options.name)) for run in experiment]
    else:
        known = {run.run: run.labels for run in experiment}
        kinds, name = options.train, None if options.name is None else str(options.name)
        runs = [
            PlannedRun(kind, name, labels=known.get(name or kind, True), seed=FILLER_SEED * kinds[:i].count(kind))
            for i, kind in enumerate(kinds)
        ]
    return runs if options.labels is None else [replace(run, labels=options.labels) for run in runs]


def make(
    options: Options, task: Task, run: PlannedRun, policy_settings: dict[str, Any], demos: Demonstrations
) -> Policy:
    """The policy of a run, untrained."""
    observed = spaces.Box(-np.inf, np.inf, (demos.observation_dim,), np.float32)
    labels: list[AnyLabel] = [*(task.labels if run.labels else ()), *labels_ahead(options)]
    known = Spaces.of(observed, task.action_space_of(demos), task.actions, labels)
    return make_policy(run.kind, known, {**policy_settings, **run.settings}, options.seed + run.seed)


def train_one(
    options: Options,
    task: Task,
    run: PlannedRun,
    policy: Policy,
    demos: Demonstrations,
    settings: TrainSettings,
    fabric: Fabric,
) -> TrainResult:
    seed = options.seed + run.seed
    folder = options.runs / task.folder_name(demos) / f"{run.run}-s{seed}"
    try:
        return train(policy, demos, settings, folder, seed=seed, resume=options.resume, fabric=fabric)
    except TrainingDiverged as error:
        raise ValueError(str(error)) from error


def report(options: Options, task: Task, results: list[TrainResult]) -> None:
    print()
    for result in results:
        done = "was finished already" if result.resumed_from == result.steps else f"{result.seconds:.0f} s"
        print(
            f"{result.folder}: {result.policy.kind}, {result.steps} steps, {done}, "
            f"validation loss {result.validation_loss:.4g}"
        )
    print("each folder: config.json, model.safetensors, best.safetensors, metrics.csv, curve.png")
    if options.train is None and options.name is None and task.has_environment:
        dims = results[0].policy.action_dim // 2
        print("next, roll them out with an operator and alone:")
        start = command_words("shared_autonomy", "evaluate")
        print(f"  {start} task={TASKS.typed(task.name)} operator_dims={dims}{_changed(options)}")
    elif task.has_environment and TASKS.typed(task.name) == task.name:
        print("next, roll them out alone:")
        print(f"  python benchmarks/full_autonomy.py {' '.join(str(result.folder) for result in results)}")
    else:
        print(f"next: load_policy({str(results[-1].folder)!r}) and an ActionFilter around your environment")


def _changed(options: Options) -> str:
    """The options that the next command needs, too."""
    seed = f" training_seeds=[{options.seed}]" if options.seed else ""
    return seed + (f" runs={options.runs}" if str(options.runs) != "runs" else "")


COMMAND = Command(main, "train_policy", aliases={"dataset": "task.dataset"})
