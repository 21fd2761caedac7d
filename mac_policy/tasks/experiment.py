"""What the commands train and compare for a task where the user does not say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class PlannedRun:
    """A training that an experiment needs.

    kind: of policy
    name: of the run, if it differs from the kind
    settings: that differ from those of the command
    labels: whether the policy has the task's labels as inputs or variables
    seed: added to the seed of the command
    """

    kind: str
    name: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    labels: bool = True
    seed: int = 0

    @property
    def run(self) -> str:
        """The name of the run."""
        return self.name or self.kind


FILLER_SEED = 100
"""Added to the training seed of a BC policy that fills in or acts alone: the operator is a BC of another seed."""


@dataclass(frozen=True)
class Experiment:
    """What is trained and compared by default.

    runs: trainings
    operator: kind of operator
    arms: of the comparison; None: the usual ones of `mac_policy.evaluation.arms` whose policies are trained
    preset: of the trainings that the comparison asks for; None: the default one

    >>> [run.run for run in Experiment().runs]
    ['bc', 'bc', 'mac']
    """

    runs: tuple[PlannedRun, ...] = (
        PlannedRun("bc", labels=False),  # nobody tells an operator what it wants
        PlannedRun("bc", seed=FILLER_SEED, labels=False),
        PlannedRun("mac"),
    )
    operator: str = "bc"
    arms: tuple[str, ...] | None = None
    preset: str | None = None


DEFAULT = Experiment()
