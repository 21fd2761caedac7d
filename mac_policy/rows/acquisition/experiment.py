"""Acquisition experiments: error curves of every arm of a comparison. Finished measurements are stored and reused."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mac_policy.common.folders import CONFIG, TrainingFacts
from mac_policy.common.locks import locked
from mac_policy.common.provenance import run_record, write_json
from mac_policy.rows import checkpoint
from mac_policy.rows.acquisition.curves import ORDERS, ROWS_PER_PASS, AcquisitionSettings, measured_curves
from mac_policy.rows.acquisition.summary import paired_areas, summarised
from mac_policy.rows.baselines import BASELINES
from mac_policy.rows.checkpoint import Kept, read_kept, write_kept
from mac_policy.rows.likelihoods.comparison import RESULTS, Comparison
from mac_policy.rows.likelihoods.evaluate import row_tensor
from mac_policy.rows.methods import METHODS, check_methods
from mac_policy.rows.sets.row_set import RowSet
from mac_policy.training.fabric import Fabric
from mac_policy.training.state import ResumeError


@dataclass(frozen=True)
class Measured:
    """The curves of one trained arm, or the reason why its training diverged."""

    arm: str
    seed: int
    seconds: float = 0.0
    tensors: Mapping[str, Tensor] = dataclasses.field(default_factory=dict)
    diverged: str | None = None


@dataclass(frozen=True)
class Experiment:
    """comparison: the arms, which are trained where the folder of the comparison does not hold them yet; target: the
    columns to predict; folder: the folder of the results."""

    comparison: Comparison
    settings: AcquisitionSettings
    folder: Path
    target: Sequence[int] = (-1,)

    def run(self, fabric: Fabric, *, resume: bool = True, quiet: bool = False) -> dict[str, Any]:
        """Measure every arm. Returns the record, which is also written after every arm. InUse, where another process
        does so in the same folder."""
        with locked(self.folder):
            return self._run(fabric, resume, quiet)

    def _run(self, fabric: Fabric, resume: bool, quiet: bool) -> dict[str, Any]:
        found: list[Measured] = []
        record: dict[str, Any] = {}
        for seed in self.comparison.seeds:
            rows = self.comparison.load(seed)
            if not found:  # raises errors before the first training
                target_mask(self.target, rows.num_variables)
                self.comparison.check(rows)
            for arm in self.comparison.arms:
                found.append(self.run_arm(arm, seed, rows, fabric, resume=resume, quiet=quiet))
                record = self.record(found, rows)
                write_json(self.folder / RESULTS, record)
        return record

    def run_arm(
        self, arm: str, seed: int, rows: RowSet, fabric: Fabric, *, resume: bool = True, quiet: bool = False
    ) -> Measured:
        try:
            outcome = self.comparison.run_arm(arm, seed, rows, fabric, quiet=quiet)
        except ResumeError as error:
            found = str(error).partition(". Choose another folder")[0]
            raise ResumeError(
                f"{found}. Acquisition does not train existing arms again: choose another folder for trained arms "
                "(runs=) or train them with scripts/benchmark.py"
            ) from None
        if outcome.diverged:
            return Measured(arm, seed, diverged=outcome.diverged)
        trained = self.comparison.arm_folder(arm, seed)
        path, facts = self.folder / f"{arm}-s{seed}.safetensors", json.loads(json.dumps(self.facts(trained, rows)))
        kept = read_kept(path, facts) if resume else None
        if kept is None:
            kept = self.measure(arm, rows, trained, seed)
            write_kept(path, kept, facts)
            if not quiet:
                print(f"{arm}, seed {seed}: acquisition in {kept.seconds:.0f} s")
        return Measured(arm, seed, kept.seconds, kept.tensors)

    def measure(self, arm: str, rows: RowSet, trained: Path, seed: int) -> Kept:
        """The curves of a trained arm."""
        begun = time.perf_counter()
        model: Any = checkpoint.load(trained)[0]
        model.rows_per_pass = ROWS_PER_PASS
        test = row_tensor(rows.test, np.arange(min(self.settings.rows or len(rows.test), len(rows.test))))
        train = row_tensor(rows.train, np.arange(min(self.settings.shared_rows, len(rows.train))))
        target = target_mask(self.target, rows.num_variables)
        tensors = measured_curves(model, train, test, target, self.settings, seed=seed)
        return Kept(tensors, time.perf_counter() - begun)

    def facts(self, trained: Path, rows: RowSet) -> dict[str, Any]:
        """The facts that the results of an arm and seed depend on."""
        config = checkpoint.read_config(trained)
        is_latent = METHODS[config["spec"]["method"]].is_baseline
        return {
            "settings": self.settings.of(is_latent),
            "target": target_mask(self.target, rows.num_variables).nonzero()[:, 0].tolist(),
            "identity": config["identity"],
            "steps": TrainingFacts.of(config["training"], str(trained / CONFIG)).steps,
            "rows": rows.full_note,
        }

    def record(self, found: Sequence[Measured], rows: RowSet) -> dict[str, Any]:
        """The content of results.json."""
        by_arm = {arm: [m for m in found if m.arm == arm] for arm in self.comparison.arms}
        whole = [arm for arm, of_arm in by_arm.items() if of_arm and not any(m.diverged for m in of_arm)]
        return run_record(None, rows.record()) | {
            "benchmark": self.comparison.name,
            "target": target_mask(self.target, rows.num_variables).nonzero()[:, 0].tolist(),
            "unit": {"rmse": "standard deviations of the target", "nll": "nats"},
            "settings": dataclasses.asdict(self.settings),
            "orders": {name: ORDERS[name] for name in self.settings.orders},
            "arms": {arm: self.arm_record(arm, of_arm) for arm, of_arm in by_arm.items() if of_arm},
            "paired": {
                f"{second} - {first}": paired
                for first, second in combinations(whole, 2)
                if (paired := self.paired(by_arm[first], by_arm[second]))
            },
        }

    def paired(self, first: Sequence[Measured], second: Sequence[Measured]) -> dict[str, Any]:
        """The differences of the areas second - first, on the seeds that both arms have."""
        seeds = [m.seed for m in first if m.seed in [other.seed for other in second]]
        if not seeds:
            return {}
        one, other = ([_arrays(m) for m in found if m.seed in seeds] for found in (first, second))
        return paired_areas(one, other, self.settings.orders)

    def arm_record(self, arm: str, found: Sequence[Measured]) -> dict[str, Any]:
        record: dict[str, Any] = {
            "about": METHODS[arm].about,
            "training_seeds": [m.seed for m in found],
            "checkpoints": [str(self.comparison.arm_folder(arm, m.seed)) for m in found],
            "acquisition_seconds": [round(m.seconds, 1) for m in found],
        }
        if any(m.diverged for m in found):
            return record | {"diverged": {str(m.seed): m.diverged for m in found if m.diverged}}
        arrays = [_arrays(m) for m in found]
        rows = [len(of_seed["random.nll"]) for of_seed in arrays]
        return record | {"rows": rows, **summarised(arrays, self.settings.orders)}


def _arrays(measured: Measured) -> dict[str, NDArray[np.float64]]:
    return {key: value.numpy() for key, value in measured.tensors.items()}


def check_answering(arms: Sequence[str]) -> None:
    """ValueError for an unknown arm, or an arm without conditional densities.

    >>> from mac_policy.rows.acquisition.experiment import check_answering
    >>> check_answering(["sfarm", "vae"])
    """
    able = [name for name, it in METHODS.items() if not it.is_baseline or BASELINES[it.network].any_query]
    for arm in check_methods(arms):
        if arm not in able:
            raise ValueError(
                f"the arm {arm!r} has no density of a variable given others, which acquisition needs; "
                f"allowed are {', '.join(map(repr, able))}"
            )


def target_mask(target: Sequence[int], num_variables: int) -> Tensor:
    """The mask (N,) of columns; negative ones count from the last.

    >>> from mac_policy.rows.acquisition.experiment import target_mask
    >>> target_mask([-1], 3)
    tensor([False, False,  True])
    """
    mask = torch.zeros(num_variables, dtype=torch.bool)
    for column in target:
        if isinstance(column, bool) or not isinstance(column, int) or not -num_variables <= column < num_variables:
            raise ValueError(f"target must list columns in {-num_variables}..{num_variables - 1}, got {column!r}")
        mask[column] = True
    if not mask.any() or mask.all():
        raise ValueError(f"target must be some of the {num_variables} columns, not {'all' if mask.any() else 'none'}")
    return mask
