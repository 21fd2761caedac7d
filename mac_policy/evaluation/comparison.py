"""The plan of a comparison: an operator with each policy that can fill in, checked before anything is rolled out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from mac_policy.common.checks import check_folder_name
from mac_policy.common.settings import Count, Names, Natural, NonNegative, Positive, Rows, Settings
from mac_policy.evaluation.arms import ArmName, Runs, check_arms, check_seeds, datasets, make_teams, policies_of
from mac_policy.evaluation.rollout import Rollout
from mac_policy.evaluation.teams import OperatorChoice, Team
from mac_policy.operators.dims import NONE, OperatorDims
from mac_policy.operators.registry import OperatorKind
from mac_policy.policies.checkpoint import read_config
from mac_policy.policies.decoding import Decode
from mac_policy.tasks import Task


@dataclass(frozen=True)
class ComparisonSettings(Settings):
    """Options of a comparison.

    arms: names of arms, see `mac_policy.evaluation.arms`; None: the usual ones whose policies are trained
    training_seeds: seeds of the policies that are compared
    episodes: per arm and training seed
    seed: of the first episode; episode i starts from seed + i in every arm
    envs: environments that each worker steps together
    decode, temperature: how policies that have these settings decode; None: as they were trained
    max_change: how far filled-in dims may move per step after the operator's subset has changed; None: no limit
    mac, bc: names of the runs of these two kinds of policy
    runs: root folder of trained models
    workers: processes
    video: whether a film is drawn; 'auto': if the environment can be drawn here
    """

    arms: Names | None = None
    training_seeds: tuple[int, ...] = (0,)
    episodes: Rows = 100
    seed: Natural = 10_000
    envs: Count = 10
    decode: Decode | None = None
    temperature: NonNegative | None = None
    max_change: Positive | None = None
    mac: Annotated[str, check_folder_name] = "mac"
    bc: Annotated[str, check_folder_name] = "bc"
    runs: Path = Path("runs")
    workers: Count = 2
    video: bool | str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_seeds(self.training_seeds)
        if self.video not in (True, False, "auto"):
            raise ValueError(f"video must be true, false or auto, got {self.video!r}")
        if self.temperature is not None and self.decode not in (None, "sample", "best"):
            raise ValueError(f"temperature={self.temperature} changes nothing with decode={self.decode}")

    @property
    def decoding(self) -> dict[str, Any]:
        """The decoding settings that are given; they hold whether anything is commanded or not."""
        if self.decode is None and self.temperature is None:
            return {}
        temperature = {} if self.temperature is None else {"temperature": float(self.temperature)}
        return {"decode": self.decode or "sample", "decode_alone": None, **temperature}

    @property
    def renamed(self) -> dict[str, str]:
        """Kinds of policy whose runs have another name, with that name."""
        return {kind: name for kind, name in (("mac", self.mac), ("bc", self.bc)) if name != kind}


@dataclass(frozen=True)
class Comparison:
    """Teams in the same episodes, for each specification of the dims that the operator holds.

    operators, teams: by that specification
    out: folder of the results
    """

    task: Task
    settings: ComparisonSettings
    arms: Sequence[ArmName]
    operators: Mapping[str, OperatorChoice]
    teams: Mapping[str, Sequence[Team]]
    rollout: Rollout
    out: Path

    def facts(self, dims: str) -> list[str]:
        """Sentences about the task, the operator and the data that the policies are trained on."""
        settings, held = self.settings, "nothing" if dims == "0" else f"dims {dims}"
        seeds = ", ".join(map(str, settings.training_seeds))
        changed = [f"{kind} stands for the runs {name}" for kind, name in settings.renamed.items()]
        changed += [f"{name}={value}" for name, value in settings.decoding.items() if value is not None]
        changed += [f"max_change={settings.max_change}"] if settings.max_change is not None else []
        return [
            f"Task: {self.task.describe()}.",
            f"Operator: {self.operators[dims].kind.describe()}; it holds {held}.",
            f"Policies trained on: {'; '.join(map(described, datasets(self.teams[dims]))) or 'no data is needed'}.",
            f"Episodes: {settings.episodes} per arm and training seed, from seed {settings.seed} in every arm; "
            f"training seeds: {seeds}.",
            *([f"Settings: {', '.join(changed)}."] if changed else []),
        ]

    def title(self, dims: str) -> str:
        return f"{self.task.name}, operator {self.operators[dims].kind.label}"

    def dataset(self, dims: str) -> dict[str, Any] | None:
        """The data set of the policies; if there are several, the first one with the others in it."""
        found = datasets(self.teams[dims])
        return found[0] | ({"others": found[1:]} if len(found) > 1 else {}) if found else None

    def conditions(self, dims: str) -> dict[str, Any]:
        """What a record says about the making of its numbers."""
        operator, environment = self.operators[dims], self.rollout.make_env.identity()
        return {
            "task": self.task.name,
            "start": environment.get("start", "official"),
            "environment": environment,
            "operator": operator.identity() | {"description": operator.kind.describe()},
            "operator_dims": dims,
            "decoding": self.settings.decoding,
            "max_change": self.settings.max_change,
            "policies": {
                f"{team.arm} s{team.training_seed}": [policy.folder for policy in policies_of(team)]
                for team in self.teams[dims]
            },
        }


def plan(
    task: Task, operator: OperatorKind, operator_dims: Any, settings: ComparisonSettings, out: str | Path | None = None
) -> Comparison:
    """The comparison of a task's policies with an operator; ValueError for whatever cannot be rolled out.

    operator_dims: what the operator holds as `OperatorDims.parse` reads it, or a list of several such specifications
    out: folder of the results; None: one within the runs, named after the settings
    """
    space = task.action_space if task.has_environment else None
    if space is None:
        raise ValueError(
            f"task={task.name} has no environment here: put an ActionFilter around yours, as the README shows"
        )
    operators: dict[str, OperatorChoice] = {}
    names = task.actions.names
    for entry in [NONE] if operator.says_only else specifications(operator_dims, names):
        dims = OperatorDims.parse(entry, space.shape[0], names)
        if str(dims) in operators:
            raise ValueError(f"operator_dims = {operator_dims} contains {dims} twice")
        operators[str(dims)] = OperatorChoice(operator, dims, task=task)
        operators[str(dims)].check(space)
    runs = Runs(settings.runs, task.name, settings.renamed, settings.decoding, task.experiment)
    seeds, any_operator = settings.training_seeds, next(iter(operators.values()))
    arms = check_arms(settings.arms if settings.arms is not None else runs.usual_arms(seeds, any_operator), runs)
    teams = {dims: make_teams(arms, seeds, runs, acting) for dims, acting in operators.items()}
    seen = observation_dim([team for of_dims in teams.values() for team in of_dims])
    rollout = Rollout(task.environment_for(seen), settings.episodes, settings.seed, settings.envs, settings.max_change)
    folder = default_folder(task, operator, list(operators), settings) if out is None else Path(out)
    return Comparison(task, settings, arms, operators, teams, rollout, folder)


def specifications(operator_dims: Any, names: Sequence[str] = ()) -> list[Any]:
    """The specifications of dims in a list of several, or the only one; a list of numbers and names of dims is one."""
    several = isinstance(operator_dims, (list, tuple)) and any(
        not isinstance(entry, int) and entry not in names for entry in operator_dims
    )
    return list(operator_dims) if several else [operator_dims]


def default_folder(task: Task, operator: OperatorKind, dims: Sequence[str], settings: ComparisonSettings) -> Path:
    """A folder whose name differs if a setting that changes numbers does."""
    numbers = {key: value for key, value in asdict(settings).items() if key not in ("workers", "video", "runs")}
    identity = [asdict(task), operator.name, asdict(operator), dims, numbers]
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()[:8]
    name = f"{operator.name}-{slug(dims[0]) if len(dims) == 1 else 'several'}-{digest}"
    return settings.runs / "shared_autonomy" / task.name / name


def observation_dim(teams: Sequence[Team]) -> int | None:
    """The number of observations that the policies of all teams are trained with; None without policies."""
    folders = dict.fromkeys(policy.folder for team in teams for policy in policies_of(team))
    sizes = {folder: int(read_config(folder)["spaces"]["observation"]["shape"][0]) for folder in folders}
    if len(set(sizes.values())) > 1:
        found = ", ".join(f"{folder}: {size}" for folder, size in sizes.items())
        raise ValueError(f"these policies see different numbers of observations: {found}")
    return next(iter(sizes.values()), None)


def described(dataset: Mapping[str, Any]) -> str:
    """A data set in words."""
    warning = ", NOT human" if dataset.get("source") == "scripted" else ""
    return (
        f"{dataset.get('name')} ({dataset.get('source')} demonstrations{warning}; "
        f"{dataset.get('episodes')} episodes, {dataset.get('steps')} steps)"
    )


def slug(dims: str) -> str:
    """A folder name for a specification of dims: [0,2,4,8] becomes 0248, no dims none."""
    if "random" in dims or dims == "0":
        return "none" if dims == "0" else dims
    numbers = dims.strip("[]").split(",")
    return ("" if all(len(number) == 1 for number in numbers) else "-").join(numbers)
