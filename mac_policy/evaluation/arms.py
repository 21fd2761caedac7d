"""The arms of a comparison by name, and the trained policies that they need.

    operator+<run>        the operator, and a policy that fills in the rest
    operator+<run>-blind  the same, but the policy is not shown the command, which measures the worth of conditioning
    <run>                 the policy alone
    zeros                 the operator alone, with zeros in the other dims
    operator              the operator alone, holding all dims, which measures what it achieves without help
    operator+<run>-told   like operator+<run>, and the operator says what it wants to a policy with labels
    <run>-told            the operator commands nothing, and says what it wants

<run> is a kind of policy or the name of its runs, whose seed s is stored in <runs>/<task>/<run>-s<s>. Where a run's
own name ends in -told, as that of a policy that cannot do without being told, the arm has that name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from mac_policy.common.checks import check_choice, check_count
from mac_policy.common.files import CheckpointError
from mac_policy.common.folders import CONFIG
from mac_policy.common.provenance import command_words
from mac_policy.evaluation.teams import OperatorChoice, Team
from mac_policy.policies.checkpoint import SavedPolicy, read_config
from mac_policy.policies.registry import POLICIES
from mac_policy.tasks import TASKS
from mac_policy.tasks.experiment import DEFAULT, FILLER_SEED, Experiment

OPERATOR, BLIND, TOLD, ZEROS, WHOLE = "operator+", "-blind", "-told", "zeros", "operator"
USUAL = ("operator+bc", "operator+mac", "operator+mac-blind", "operator+mac_path", "mac", "bc", "ibc", ZEROS, WHOLE)
IF_TRAINED = {"operator+mac_path": "mac_path", "ibc": "ibc"}
"""Usual arms that are left out if these runs are not trained."""


class ArmName(NamedTuple):
    """The parts of an arm's name."""

    name: str
    run: str | None
    """Kind or run name of the policy that fills in or acts alone; None: zeros."""
    shared: bool
    """Whether an operator acts."""
    sees: bool
    """Whether the policy is shown the command."""
    told: bool = False
    """Whether the policy is told what the operator wants."""


def parse_arm(name: str, known: Collection[str] = ()) -> ArmName:
    """The parts of a name as the top of this file defines it; ValueError for other names.

    known: names of runs, some of which may end in -told
    """
    name = str(name)
    if name in (ZEROS, WHOLE):
        return ArmName(name, None, True, True)
    shared, told = name.startswith(OPERATOR), name.endswith(TOLD)
    run = name.removeprefix(OPERATOR).removesuffix(BLIND)
    blind_and_told = name.endswith(BLIND) and run.endswith(TOLD)
    run = run.removesuffix(TOLD) if run not in known else run
    if not run or blind_and_told or (name.endswith(BLIND) and not shared):
        raise ValueError(
            f"unknown arm {name!r}; allowed are operator+<policy>, operator+<policy>-blind, operator+<policy>-told, "
            "<policy>, <policy>-told, zeros, operator"
        )
    return ArmName(name, run, shared, not name.endswith(BLIND), told)


@dataclass(frozen=True)
class Runs:
    """The trained policies of a task.

    names: names of runs by kind of policy, if they differ from the kind: {'mac': 'mac_wide'}
    settings: decoding settings to change in the policies that have them
    experiment: of the task
    """

    root: Path
    task: str
    names: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    experiment: Experiment = DEFAULT

    @property
    def folder(self) -> Path:
        return self.root / self.task

    def run_folder(self, run: str, seed: int) -> Path:
        return self.folder / f"{self.names.get(run, run)}-s{seed}"

    def is_trained(self, run: str, seed: int) -> bool:
        """Whether the folder holds a policy whose training is finished."""
        folder = self.run_folder(run, seed)
        return (folder / CONFIG).exists() and bool(read_config(folder)["training"].get("finished", True))

    def policy(self, run: str, seed: int) -> SavedPolicy:
        folder = self.run_folder(run, seed)
        known = read_config(folder)["settings"]
        return SavedPolicy.of(folder, {key: value for key, value in self.settings.items() if key in known})

    def filler_seed(self, run: str, training_seed: int) -> int:
        return training_seed + FILLER_SEED if run == "bc" else training_seed

    def usual_arms(self, training_seeds: Sequence[int], operator: OperatorChoice) -> list[str]:
        """The arms of a comparison for which none are named: those of the task's experiment, or the usual ones.

        mac_path and ibc are left out if they are not trained, the operator alone if it cannot do the task or is another
        copy of bc, and arms that are told if the operator does not say what it wants.
        """
        there = {arm: all(self.is_trained(run, seed) for seed in training_seeds) for arm, run in IF_TRAINED.items()}
        kind = operator.kind
        there[WHOLE] = kind.acts_alone and kind.name != "bc" and not kind.says_only
        usual = USUAL if self.experiment.arms is None else self.experiment.arms
        return [arm for arm in usual if there.get(arm, True) and (operator.says or not arm.endswith(TOLD))]

    @property
    def trained(self) -> set[str]:
        """The names of the runs that have a folder."""
        return {path.name.rpartition("-s")[0] for path in self.folder.glob("*-s*")} if self.folder.is_dir() else set()


def check_arms(names: Sequence[str], runs: Runs) -> list[ArmName]:
    """The parsed names; ValueError unless each names a kind of policy or existing runs."""
    if not names or len(set(names)) < len(names):
        raise ValueError(f"arms must be one or more different names, got {list(names)!r}")
    found = runs.trained | {run.run for run in runs.experiment.runs}
    arms = [parse_arm(name, found) for name in names]
    for arm in arms:
        if arm.run is not None and arm.run not in found:
            check_choice("policy in arms", arm.run, [*POLICIES, *sorted(found - set(POLICIES))])
    return arms


def check_told(arms: Sequence[ArmName], operator: OperatorChoice) -> None:
    """ValueError where an arm is told what nobody says."""
    told = [arm.name for arm in arms if arm.told]
    if told and not operator.says:
        labels = operator.task is not None and operator.task.labels
        why = (
            f"a {operator.kind.name!r} operator says nothing; operator=expert does"
            if labels
            else "the task has no labels"
        )
        raise ValueError(f"{', '.join(told)}: the policy is to be told what is wanted, but {why}")


def check_seeds(training_seeds: Sequence[int]) -> list[int]:
    seeds = [check_count("a training seed", seed, 0) for seed in training_seeds]
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(f"training_seeds must be one or more different numbers, got {list(training_seeds)!r}")
    return seeds


def make_teams(
    arms: Sequence[ArmName], training_seeds: Sequence[int], runs: Runs, operator: OperatorChoice
) -> list[Team]:
    """A team for each arm and training seed; an arm in which nothing is trained is one team."""
    check_told(arms, operator)
    check_trained(arms, training_seeds, runs, operator)
    for kind, name in runs.names.items():
        check_choice(f"run in {kind}=", name, sorted(runs.trained))
    return [
        make_team(arm, seed, runs, operator)
        for arm in arms
        for seed in (training_seeds if arm.run is not None or (arm.shared and operator.needs_policy) else [None])
    ]


def _check_can_be_told(arm: ArmName, policy: SavedPolicy, operator: OperatorChoice) -> None:
    """ValueError unless the first label of a policy that has classes is the one that the operator speaks of."""
    config = read_config(Path(policy.folder))
    silent = POLICIES.find(config["policy"]).labels_as == "nothing" or not config["settings"].get("labels", True)
    labels = [] if silent else [label for label in config["spaces"].get("labels", ()) if "classes" in label]
    if not labels:
        raise ValueError(f"{arm.name}: {policy.folder} was trained without labels, so that it cannot be told anything")
    wanted = () if operator.task is None else operator.task.labels[0].classes
    if tuple(labels[0]["classes"]) != wanted:
        raise ValueError(
            f"{arm.name}: the label {labels[0]['name']!r} of {policy.folder} has the classes "
            f"{', '.join(labels[0]['classes'])}; the operator says one of {', '.join(wanted)}"
        )


def _choosing_as_commanded(policy: SavedPolicy) -> SavedPolicy:
    """A policy that chooses its actions as it does under a command, though it is shown none: a blind arm differs from
    the one that sees by the command alone."""
    if read_config(Path(policy.folder))["settings"].get("decode_alone") is None:
        return policy
    return SavedPolicy.of(policy.folder, dict(policy.settings) | {"decode_alone": None}, policy.weights)


def make_team(arm: ArmName, seed: int | None, runs: Runs, operator: OperatorChoice) -> Team:
    """The team of an arm at a training seed; None: nothing in it is trained."""
    filler = None if arm.run is None or seed is None else runs.policy(arm.run, runs.filler_seed(arm.run, seed))
    if arm.told and filler is not None:
        _check_can_be_told(arm, filler, operator)
    needed = operator.needs_policy and arm.shared
    acting = replace(operator, policy=runs.policy("bc", seed)) if needed and seed is not None else operator
    if not arm.shared:
        acting = acting.holding(0)
    elif arm.name == WHOLE:
        acting = acting.holding(acting.dims.action_dim)
    idle = acting.dims.fixed == () and not (arm.told or operator.kind.sets_intent)
    if filler is not None and not (arm.sees or idle):
        filler = _choosing_as_commanded(filler)
    return Team(arm.name, seed, filler, None if idle else acting, arm.sees or idle, arm.told)


def check_trained(arms: Sequence[ArmName], training_seeds: Sequence[int], runs: Runs, operator: OperatorChoice) -> None:
    """CheckpointError with the commands that train what is missing."""
    commanded = operator.needs_policy and any(arm.shared for arm in arms)
    needed = [("bc", seed) for seed in training_seeds if commanded]
    needed += [(a.run, runs.filler_seed(a.run, seed)) for seed in training_seeds for a in arms if a.run is not None]
    missing = [entry for entry in dict.fromkeys(needed) if not runs.is_trained(*entry)]
    if not missing:
        return
    names = ", ".join(f"{runs.names.get(run, run)}-s{seed}" for run, seed in missing)
    some = (
        f"{names} {'is' if len(missing) == 1 else 'are'} not" if any(runs.folder.glob(f"*/{CONFIG}")) else "nothing is"
    )
    raise CheckpointError("\n  ".join([f"{some} trained in {runs.folder}. Train first:", *_commands(missing, runs)]))


def _commands(missing: Sequence[tuple[str, int]], runs: Runs) -> list[str]:
    """Commands that train the missing policies; the default policy=all trains the runs of the task's experiment."""
    wanted: dict[str, set[int]] = {}
    planned = runs.experiment.runs
    for run, seed in missing:
        offsets = [entry.seed for entry in planned if entry.run == run and entry.seed <= seed]
        if offsets and run not in runs.names:
            wanted.setdefault("", set()).add(seed - max(offsets))
        else:
            name = runs.names.get(run, run)
            kind = run if run in POLICIES else read_config(next(runs.folder.glob(f"{run}-s*")))["policy"]
            wanted.setdefault(f" policy={kind}" + (f" name={name}" if name != kind else ""), set()).add(seed)
    preset = "" if runs.experiment.preset is None else f" preset={runs.experiment.preset}"
    where = "" if runs.root == Path("runs") else f" runs={runs.root}"
    start = command_words("train_policy", "train")
    return [
        f"{start}{' -m' if len(seeds) > 1 else ''} task={TASKS.typed(runs.task)}{what} "
        f"seed={','.join(map(str, sorted(seeds)))}{preset}{where}"
        for what, seeds in wanted.items()
    ]


def datasets(teams: Sequence[Team]) -> list[dict[str, Any]]:
    """The data sets that the policies of the teams are trained on, each once."""
    folders = {policy.folder for team in teams for policy in policies_of(team)}
    found = [read_config(folder)["dataset"] for folder in sorted(folders)]
    return list({str(data.get("sha256")): data for data in found}.values())


def policies_of(team: Team) -> list[SavedPolicy]:
    """The policies in a team: the filler's and the operator's."""
    commanding = None if team.operator is None else team.operator.policy
    return [policy for policy in (team.filler, commanding) if policy is not None]
