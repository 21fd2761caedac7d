"""Comparisons: arms that are trained and evaluated under one budget, and their record."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mac_policy.common.checks import check_choice, check_count
from mac_policy.common.locks import locked
from mac_policy.common.provenance import run_record, write_json
from mac_policy.common.statistics import summary
from mac_policy.rows import checkpoint
from mac_policy.rows.likelihoods.evaluate import Outcome, evaluate
from mac_policy.rows.likelihoods.queries import evaluation_queries
from mac_policy.rows.likelihoods.training import ArmRun, Budget
from mac_policy.rows.likelihoods.unit import unit_of
from mac_policy.rows.methods import METHODS, check_methods
from mac_policy.rows.sets.row_set import RowSet
from mac_policy.rows.spec import ModelSpec, build
from mac_policy.training.fabric import Fabric
from mac_policy.training.loop import TrainingDiverged

RESULTS = "results.json"


@dataclass(frozen=True)
class Comparison:
    """Arms under one budget. For each seed, all arms have the same rows in the same order and the same initial weights.

    load: returns the data for a seed (the same for all seeds unless `random_splits`)
    networks: the `network` of `ModelSpec` for each kind of network ('set', 'path' or the name of a baseline)
    head, order, regions: as in `ModelSpec`
    """

    name: str
    load: Callable[[int], RowSet]
    networks: Mapping[str, Mapping[str, Any]]
    head: Mapping[str, Any]
    order: Mapping[str, Any]
    budget: Budget
    arms: Sequence[str]
    seeds: Sequence[int]
    folder: Path
    random_splits: bool = False
    regions: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for arm in check_methods(self.arms):
            check_choice(f"kind of network, which the arm {arm} asks,", METHODS[arm].network, self.networks)
        seeds = [check_count(f"seeds[{place}]", seed, 0) for place, seed in enumerate(self.seeds)]
        if not seeds or len(set(seeds)) < len(seeds):
            raise ValueError(f"seeds must be one or more different numbers, got {list(self.seeds)}")

    def spec(self, arm: str, rows: RowSet) -> ModelSpec:
        network = {**METHODS[arm].sizes, **self.networks[METHODS[arm].network]}
        return ModelSpec(arm, rows.shape, rows.levels, network, self.head, self.order, self.regions)

    def budget_for(self, rows: RowSet) -> Budget:
        """The budget for these rows. If an arm is staged, all arms have queries of whole pixels of colour images."""
        staged = any(METHODS[arm].modes is not None for arm in self.arms)
        if not staged or len(rows.shape) != 3 or rows.shape[0] == 1:
            return self.budget
        return dataclasses.replace(
            self.budget, evaluation=dataclasses.replace(self.budget.evaluation, whole_pixels=True)
        )

    def arm_folder(self, arm: str, seed: int) -> Path:
        return self.folder / f"{arm}-s{seed}"

    def run(self, fabric: Fabric, *, resume: bool = True, quiet: bool = False) -> dict[str, Any]:
        """Train and evaluate the arms that the folder lacks. The record is written after every arm and returned. InUse,
        where another process does so in the same folder."""
        with locked(self.folder) if fabric.is_global_zero else nullcontext():
            return self._run(fabric, resume, quiet)

    def _run(self, fabric: Fabric, resume: bool, quiet: bool) -> dict[str, Any]:
        outcomes: list[Outcome] = []
        record: dict[str, Any] = {}
        for seed in self.seeds:
            rows = self.load(seed)
            if not outcomes:
                self.check(rows)
            for arm in self.arms:
                outcomes.append(self.run_arm(arm, seed, rows, fabric, resume=resume, quiet=quiet))
                record = self.record(outcomes, rows)
                if fabric.is_global_zero:
                    write_json(self.folder / RESULTS, record)
                fabric.barrier()
        return record

    def check(self, rows: RowSet) -> None:
        """Build all queries and models, so that invalid settings raise a ValueError before the first training."""
        evaluation_queries(1, rows.shape, self.budget_for(rows).evaluation)
        for arm in self.arms:
            build(self.spec(arm, rows))

    def run_arm(
        self, arm: str, seed: int, rows: RowSet, fabric: Fabric, *, resume: bool = True, quiet: bool = False
    ) -> Outcome:
        """Train and evaluate one arm, resumed from its folder. A diverged training is returned as an outcome."""
        budget = self.budget_for(rows)
        settings = budget.evaluation
        spec, folder = self.spec(arm, rows), self.arm_folder(arm, seed)
        model = build(spec, seed)
        model.rows_per_pass = settings.rows_per_pass
        run = ArmRun(model, spec, rows, budget, folder, seed=seed, fabric=fabric, quiet=quiet)
        try:
            trained = run.go(resume)
        except TrainingDiverged as error:
            return Outcome(arm, seed, error.step, run.seconds, diverged=str(error))
        model = run.average if trained else checkpoint.load(folder, device=fabric.device)[0]
        model.rows_per_pass = settings.rows_per_pass
        found = evaluate(model, rows, settings, folder, fabric=fabric, arm=arm, seed=seed)
        return dataclasses.replace(found, steps=run.step, seconds=run.seconds)

    def record(self, outcomes: Sequence[Outcome], rows: RowSet) -> dict[str, Any]:
        """The content of results.json."""
        discrete = rows.levels is not None
        unit = unit_of(discrete, rows.num_variables)
        by_arm = {arm: [o for o in outcomes if o.arm == arm] for arm in self.arms}
        values = {
            arm: [o.metrics(rows.num_variables, discrete, in_nats=rows.levels == 2) for o in found if not o.diverged]
            for arm, found in by_arm.items()
        }
        whole = [arm for arm, found in by_arm.items() if found and not any(o.diverged for o in found)]
        asked = {kind: self.networks[kind] for kind in dict.fromkeys(METHODS[arm].network for arm in self.arms)}
        budget = self.budget_for(rows)
        models = {"networks": asked, "head": self.head, "order": self.order, "regions": self.regions}
        said = {
            "benchmark": self.name,
            "unit": unit.name,
            "better": unit.better,
            "budget": json.loads(json.dumps({**budget.as_dict(), "evaluation": vars(budget.evaluation)})),
            "models": json.loads(json.dumps(models)),
            "arms": {arm: self.arm_record(by_arm[arm], values[arm]) for arm in self.arms if by_arm[arm]},
            "paired": {
                f"{second} - {first}": self.paired(by_arm, values, first, second)
                for first, second in combinations(whole, 2)
            },
        }
        dataset = rows.record()
        if self.random_splits:
            dataset["note"] = f"a random split for each seed; {dataset['note']} is the last"
        return run_record(None, dataset) | said

    def arm_record(
        self, outcomes: Sequence[Outcome], values: Sequence[Mapping[str, NDArray[np.float64]]]
    ) -> dict[str, Any]:
        """The record of an arm. `values` omits diverged seeds. An arm with a diverged seed has no means."""
        trained = {
            "about": METHODS[outcomes[0].arm].about,
            "training_seeds": [o.seed for o in outcomes],
            "steps": [o.steps for o in outcomes],
            "train_seconds": [round(o.seconds, 1) for o in outcomes],
            "evaluation_seconds": [round(o.evaluation_seconds, 1) for o in outcomes],
        }
        diverged = {str(o.seed): o.diverged for o in outcomes if o.diverged}
        if diverged:
            others = [o.seed for o in outcomes if not o.diverged]
            means = {str(s): {k: float(np.mean(x)) for k, x in v.items()} for s, v in zip(others, values, strict=True)}
            return trained | {"diverged": diverged, "others": means}
        shared = not self.random_splits
        return trained | {
            "rows": [len(v["joint"]) for v in values],
            "metrics": {name: summary([v[name] for v in values], shared) for name in values[0]},
        }

    def paired(
        self,
        by_arm: Mapping[str, Sequence[Outcome]],
        values: Mapping[str, Sequence[Mapping[str, NDArray[np.float64]]]],
        first: str,
        second: str,
    ) -> dict[str, Any]:
        """The paired differences second - first of each row, on the seeds that both arms have."""
        seeds = [{o.seed: v for o, v in zip(by_arm[arm], values[arm], strict=True)} for arm in (first, second)]
        both = [seed for seed in seeds[0] if seed in seeds[1]]
        names = [name for name in seeds[0][both[0]] if name in seeds[1][both[0]]] if both else []
        return {
            name: summary([seeds[1][seed][name] - seeds[0][seed][name] for seed in both], not self.random_splits)
            for name in names
        }
