"""Train policies on a task's demonstrations. `--help` explains each option."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from omegaconf import DictConfig, OmegaConf

import envs  # noqa: F401  (registers the tasks)
from mac_policy.cli.command import Command
from mac_policy.cli.main import run
from mac_policy.common.checks import check_choice, check_count
from mac_policy.common.settings import from_mapping
from mac_policy.demonstrations.demonstrations import Demonstrations
from mac_policy.evaluation.arms import FILLER_SEED
from mac_policy.policies.fit import TrainResult, train
from mac_policy.policies.registry import POLICIES, make_policy, make_settings
from mac_policy.policies.spaces import Spaces
from mac_policy.tasks import TASKS, Task
from mac_policy.training.fabric import Fabric, make_fabric
from mac_policy.training.loop import TrainingDiverged
from mac_policy.training.metrics import check_tensorboard
from mac_policy.training.settings import TrainSettings


def main(plain: dict[str, Any]) -> None:
    config = OmegaConf.create(plain)
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    settings = check(config)
    task = task_of(config)
    fabric = make_fabric(settings)
    with fabric.rank_zero_first():  # the first process may have to fetch or record the demonstrations
        demos = task.load_demonstrations(**_plain(config.data))
    results = []
    for kind, seed in plan(list(config.train), config.seed):
        results.append(train_one(config, task, kind, seed, demos, settings, fabric))
    if fabric.is_global_zero:
        report(config, results)


def check(config: DictConfig) -> TrainSettings:
    """The settings of training; a mistake shows before anything is fetched or recorded."""
    check_count("seed", config.seed, 0)
    settings = from_mapping(TrainSettings, _plain(config.training), "training settings")
    if settings.tensorboard:
        check_tensorboard()
    for kind in config.train:
        check_choice("policy in train", kind, POLICIES)
        if kind not in config:
            raise ValueError(f"train names {kind}, whose settings are not there: choose policy={kind}")
        make_settings(kind, _plain(config[kind]))
    return settings


def plan(kinds: list[str], seed: int) -> list[tuple[str, int]]:
    """Each policy's seed: the second of a kind gets another one."""
    return [(kind, seed + FILLER_SEED * kinds[:i].count(kind)) for i, kind in enumerate(kinds)]


def task_of(config: DictConfig) -> Task:
    options = _plain(config.task)
    return TASKS.find(options.pop("name")).with_options(options)


def train_one(
    config: DictConfig,
    task: Task,
    kind: str,
    seed: int,
    demos: Demonstrations,
    settings: TrainSettings,
    fabric: Fabric,
) -> TrainResult:
    observed = spaces.Box(-np.inf, np.inf, (demos.observation_dim,), np.float32)
    policy = make_policy(kind, Spaces.of(observed, task.action_space_of(demos)), _plain(config[kind]), seed)
    folder = Path(config.runs) / task.folder_name(demos) / f"{config.name or kind}-s{seed}"
    try:
        return train(policy, demos, settings, folder, seed=seed, resume=config.resume, fabric=fabric)
    except TrainingDiverged as error:
        raise ValueError(str(error)) from error


def report(config: DictConfig, results: list[TrainResult]) -> None:
    print()
    for result in results:
        done = "was finished already" if result.resumed_from == result.steps else f"{result.seconds:.0f} s"
        print(
            f"{result.folder}: {result.policy.kind}, {result.steps} steps, {done}, "
            f"validation loss {result.validation_loss:.4g}"
        )
    print("each folder: config.json, model.safetensors, best.safetensors, metrics.csv, curve.png")
    folders = " ".join(str(result.folder) for result in results)
    if config.train == ["bc", "bc", "mac"] and config.name is None and config.task.name != "minari":
        print("next, how well they do with an operator and alone:")
        dims = results[0].policy.action_dim // 2
        print(f"  python scripts/shared_autonomy.py task={config.task.name} operator_dims={dims}{_changed(config)}")
    else:
        print("next, how well they do alone:")
        print(f"  python benchmarks/full_autonomy.py {folders}")


def _changed(config: DictConfig) -> str:
    """What the next command must be told too."""
    seed = f" training_seeds=[{config.seed}]" if config.seed else ""
    return seed + (f" runs={config.runs}" if config.runs != "runs" else "")


def _plain(config: DictConfig) -> dict[str, Any]:
    plain: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    return plain


if __name__ == "__main__":
    run(Command(main, "train_policy"))
