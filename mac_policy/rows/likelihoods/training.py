"""Training one arm on the rows of a data set."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from mac_policy.common.checks import check_count
from mac_policy.rows import checkpoint
from mac_policy.rows.likelihoods.batches import Variation
from mac_policy.rows.likelihoods.evaluate import log_likelihoods, row_tensor
from mac_policy.rows.likelihoods.queries import EvaluationSettings, curve_queries
from mac_policy.rows.model import RowModel, rows_of
from mac_policy.rows.sets.row_set import RowSet
from mac_policy.rows.spec import ModelSpec
from mac_policy.training.fabric import Fabric
from mac_policy.training.run import Run
from mac_policy.training.settings import TrainSettings
from mac_policy.training.streams import stream

LIKELIHOOD = "likelihood.safetensors"


@dataclass(frozen=True)
class Budget:
    """How the arms of a comparison are trained: the same for each.

    training: steps, batch, rates, ...; variation: of the rows; energy_warmup: first steps in which a head with an
    energy trains its proposal alone; evaluation: its curve_* define the curve along training.
    """

    training: TrainSettings
    variation: Variation = field(default_factory=Variation)
    energy_warmup: int = 0
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)

    def __post_init__(self) -> None:
        check_count("energy_warmup", self.energy_warmup, 0)

    def as_dict(self) -> dict[str, Any]:
        """The settings that the weights of a run depend on, as plain JSON."""
        curve = {key: value for key, value in asdict(self.evaluation).items() if key.startswith("curve")}
        curve["whole_pixels"] = self.evaluation.whole_pixels
        found: dict[str, Any] = json.loads(
            json.dumps(
                {
                    "training": self.training.identity(),
                    "variation": asdict(self.variation),
                    "energy_warmup": self.energy_warmup,
                    "curve": curve,
                }
            )
        )
        return found


class ArmRun(Run[RowModel]):
    """The training of an arm. The seed decides the first weights, the order of the rows and all random draws."""

    key = "model"
    files = (checkpoint.CONFIG, checkpoint.WEIGHTS, LIKELIHOOD)

    def __init__(
        self,
        model: RowModel,
        spec: ModelSpec,
        rows: RowSet,
        budget: Budget,
        folder: Path,
        *,
        seed: int,
        fabric: Fabric,
        quiet: bool = False,
    ) -> None:
        budget.variation.check_fits(rows.shape, rows.levels)
        self.spec, self.data, self.budget = spec, rows, budget
        dataset = rows.record() | {"note": rows.note_of("train", "valid")}
        of_data = {key: dataset[key] for key in ("name", "sha256", "note", "train", "valid", "variables")}
        identity = {"spec": json.loads(json.dumps(spec.as_dict())), **budget.as_dict(), "data": of_data, "seed": seed}
        super().__init__(
            model,
            len(rows.train),
            budget.training,
            folder,
            name=f"{spec.method}, seed {seed}",
            identity=identity,
            seed=seed,
            fabric=fabric,
            quiet=quiet,
        )

    def inputs(self, step: int) -> tuple[Any, ...]:
        x = row_tensor(self.data.train, self.shuffle.batch(step)[self.share].numpy())
        x = self.budget.variation(x, self.data.shape, stream(self.seed, f"variation {self.fabric.global_rank}", step))
        draws = self.model.draw(self.settings.batch_size, stream(self.seed, "draws", step))
        mine = rows_of(draws, self.share).to(self.fabric.device)
        noise = stream(self.seed, f"noise {self.fabric.global_rank}", step)
        return x.to(self.fabric.device), mine, noise, float(step >= self.budget.energy_warmup)

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """Nats per variable of joint and marginal queries on validation rows. `validation_loss` is the marginal's.

        A model that answers joint queries alone has the joint's.
        """
        settings = self.budget.evaluation
        count = min(settings.curve_rows, len(self.data.valid))
        found = {}
        for name, queries in curve_queries(count, self.data.shape, settings).items():
            if name != "joint" and not self.model.any_query:
                continue
            values = log_likelihoods(
                self.average,
                self.data.valid,
                queries,
                fabric=self.fabric,
                seed=self.seed,
                steps=settings.curve_steps,
            )["model"]
            found[name] = -float(values.mean()) / self.data.num_variables
        return {**found, "validation_loss": found.get("marginal", found["joint"])}

    def write_model(self, facts: Mapping[str, Any]) -> None:
        checkpoint.save(self.average, self.spec, self.folder, self.data.record(), facts, self.identity)

    def read_facts(self) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
        if not (self.folder / checkpoint.CONFIG).exists():
            return None
        config = checkpoint.read_config(self.folder)
        return config["training"], config["identity"]
