"""The configuration of shared_autonomy.py, checked and turned into what is to be rolled out."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import DictConfig, OmegaConf

import envs  # noqa: F401  (registers the tasks)
from mac_policy.common.checks import check_choice, check_count, check_positive, is_number
from mac_policy.evaluation.arms import ArmName, Runs, check_arms, check_seeds, make_teams, policies_of
from mac_policy.evaluation.rollout import Rollout
from mac_policy.evaluation.teams import Team
from mac_policy.operators.choice import OperatorChoice
from mac_policy.operators.dims import OperatorDims
from mac_policy.operators.registry import make_kind
from mac_policy.policies.checkpoint import read_config
from mac_policy.policies.decoding import KINDS
from mac_policy.tasks import TASKS, Task, TaskEnvironment, TaskExpert

NOT_IN_THE_NAME = ("workers", "video", "out", "runs")
"""Options that change no number."""


class Plan(NamedTuple):
    """A checked configuration."""

    rollout: Rollout
    env: TaskEnvironment
    arms: list[ArmName]
    teams: dict[str, list[Team]]
    """For each specification of the operator's dims, the teams."""
    operators: dict[str, OperatorChoice]
    training_seeds: list[int]
    decoding: dict[str, Any]
    out: Path


def make_plan(config: DictConfig) -> Plan:
    """Every setting is checked here, before anything is rolled out."""
    check_options(config)
    task = task_of(config)
    space = task.action_space if task.has_environment else None
    if space is None:
        raise ValueError(
            f"task={task.name} has no environment here: put an ActionFilter around yours, as the README shows"
        )
    seeds = check_seeds(listed(config, "training_seeds"))
    settings = decoding(config)
    runs = Runs(Path(str(config.runs)), task.name, renamed(config), settings)
    operators = {}
    for entry in several(config.operator_dims):
        operator = make_operator(config, task, OperatorDims.parse(entry, space.shape[0]))
        operator.check(space)
        if str(operator.dims) in operators:
            raise ValueError(f"operator_dims = {config.operator_dims} asks for {operator.dims} twice")
        operators[str(operator.dims)] = operator
    names = listed(config, "arms") if config.arms is not None else runs.usual_arms(seeds, operator)
    arms = check_arms(names, runs)
    teams = {dims: make_teams(arms, seeds, runs, operator) for dims, operator in operators.items()}
    env = environment(task, [team for column in teams.values() for team in column])
    rollout = Rollout(env, config.episodes, config.seed, config.envs, config.max_change)
    return Plan(rollout, env, arms, teams, operators, seeds, settings, out_folder(config, operators))


def listed(config: DictConfig, name: str) -> list[Any]:
    found = OmegaConf.to_container(config[name]) if OmegaConf.is_config(config[name]) else config[name]
    if not isinstance(found, list):
        raise ValueError(f"{name} must be a list, such as {name}=[{found}], got {found!r}")
    return found


def check_options(config: DictConfig) -> None:
    check_count("workers", config.workers)
    for name in ("episodes", "envs"):
        check_count(name, config[name])
    check_count("seed", config.seed, 0)
    if config.video not in (True, False, "auto"):
        raise ValueError(f"video must be true, false or auto, got {config.video!r}")
    if config.max_change is not None:
        check_positive("max_change", config.max_change)
    for name in ("mac", "bc"):
        if not isinstance(config[name], str) or "/" in config[name]:
            raise ValueError(
                f"{name} must be the name of runs in {config.runs}/{config.task.name}, got {config[name]!r}"
            )


def decoding(config: DictConfig) -> dict[str, Any]:
    """The settings of decoding that are asked for."""
    settings: dict[str, Any] = {}
    if config.decode is not None:
        settings["decode"] = check_choice("decode", config.decode, KINDS)
    if config.temperature is not None:
        if not is_number(config.temperature) or not 0 <= config.temperature < math.inf:
            raise ValueError(f"temperature must be a finite number of at least 0, got {config.temperature!r}")
        if settings.setdefault("decode", "sample") not in ("sample", "best"):
            raise ValueError(f"temperature={config.temperature} changes nothing with decode={config.decode}")
        settings["temperature"] = float(config.temperature)
    return settings


def renamed(config: DictConfig) -> dict[str, str]:
    return {kind: config[kind] for kind in ("mac", "bc") if config[kind] != kind}


def make_operator(config: DictConfig, task: Task, dims: OperatorDims) -> OperatorChoice:
    settings: dict[str, Any] = OmegaConf.to_container(config.operator, resolve=True)  # type: ignore[assignment]
    expert = TaskExpert(task) if task.has_expert else None
    return OperatorChoice(make_kind(settings.pop("kind"), settings), dims, expert=expert)


def several(given: Any) -> list[Any]:
    """One specification of dims, or a list that holds some: a list of numbers is one."""
    plain = OmegaConf.to_container(given) if OmegaConf.is_config(given) else given
    if isinstance(plain, list) and any(not isinstance(entry, int) for entry in plain):
        return plain
    return [plain]


def environment(task: Task, teams: Sequence[Team]) -> TaskEnvironment:
    """The task's environment, seen as the policies were trained to see it."""
    policies = {policy.folder: policy for team in teams for policy in policies_of(team)}
    sizes = {folder: read_config(folder)["spaces"]["observation"]["shape"][0] for folder in policies}
    if len(set(sizes.values())) > 1:
        found = ", ".join(f"{folder}: {size}" for folder, size in sizes.items())
        raise ValueError(f"these policies see different numbers of observations: {found}")
    return task.environment_for(next(iter(sizes.values()), None))


def task_of(config: DictConfig) -> Task:
    options: dict[str, Any] = OmegaConf.to_container(config.task, resolve=True)  # type: ignore[assignment]
    return TASKS.find(options.pop("name")).with_options(options)


def out_folder(config: DictConfig, operators: dict[str, OperatorChoice]) -> Path:
    if config.out is not None:
        return Path(str(config.out))
    plain: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    numbers = {key: value for key, value in plain.items() if key not in NOT_IN_THE_NAME}
    digest = hashlib.sha256(json.dumps(numbers, sort_keys=True).encode()).hexdigest()[:8]
    dims = slug(next(iter(operators))) if len(operators) == 1 else "several"
    return Path(str(config.runs)) / "shared_autonomy" / config.task.name / f"{config.operator.kind}-{dims}-{digest}"


def slug(dims: str) -> str:
    """A name for a folder: [0,2,4,8] becomes 0248, no dims none."""
    if "random" in dims:
        return dims
    if dims == "0":
        return "none"
    numbers = dims.strip("[]").split(",")
    return ("" if all(len(number) == 1 for number in numbers) else "-").join(numbers)
