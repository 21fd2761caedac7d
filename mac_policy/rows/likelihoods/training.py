"""Training of one arm on the rows of a data set, with random variations of the rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor

from mac_policy.common.folders import CONFIG, WEIGHTS, TrainingFacts
from mac_policy.common.settings import Natural, NonNegative, Settings, choice
from mac_policy.rows import checkpoint
from mac_policy.rows.likelihoods.evaluate import LIKELIHOOD, log_likelihoods, row_tensor
from mac_policy.rows.likelihoods.queries import EvaluationSettings, curve_queries
from mac_policy.rows.likelihoods.unit import unit_of
from mac_policy.rows.model import RowModel, rows_of
from mac_policy.rows.sets.row_set import RowSet
from mac_policy.rows.spec import ModelSpec
from mac_policy.training.fabric import Fabric
from mac_policy.training.run import Run
from mac_policy.training.settings import TrainSettings
from mac_policy.training.streams import stream

LEFT_RIGHT, TOP_BOTTOM = partial(torch.flip, dims=(3,)), partial(torch.flip, dims=(2,))
VARIATIONS: dict[str, Sequence[Callable[[Tensor], Tensor]]] = {
    "flip": (LEFT_RIGHT,),
    "flip-both": (LEFT_RIGHT, TOP_BOTTOM),
    "rotate": (partial(torch.rot90, k=1, dims=(2, 3)),),
}


@dataclass(frozen=True)
class Variation(Settings):
    """Random variations of training rows, drawn anew in each step.

    noise: standard deviation of gaussian noise on tables, in normalised units
    images: 'flip' left-right, 'flip-both' also top-bottom, 'rotate' by 90 degrees, each with probability 1/2
    """

    prefix: ClassVar[str] = "variation."

    noise: NonNegative = 0.0
    images: tuple[Annotated[str, choice(VARIATIONS, "variation of images")], ...] = ()

    def check_fits(self, shape: Sequence[int], levels: int | None) -> None:
        """Raise a ValueError if the variation does not apply to rows of this shape and `levels` (None: real)."""
        if self.noise and levels is not None:
            raise ValueError(
                f"variation.noise={self.noise} is for real numbers, these rows have values 0..{levels - 1}"
            )
        if self.images and len(shape) != 3:
            names = ", ".join(self.images)
            raise ValueError(f"variation.images=[{names}] is for images, these rows have shape {tuple(shape)}")
        check_square(self.images, shape)

    def __call__(self, x: Tensor, shape: Sequence[int], generator: torch.Generator) -> Tensor:
        """Apply the variation to rows (B, N) of this shape."""
        if self.noise:
            x = x + self.noise * torch.randn(x.shape, generator=generator)
        if self.images:
            x = vary_images(x.view(-1, *shape), self.images, generator).reshape(x.shape)
        return x


def vary_images(images: Tensor, names: Sequence[str], generator: torch.Generator) -> Tensor:
    """Apply each variation to each image (B, C, H, W) with probability 1/2."""
    check_square(names, images.shape[1:])
    for move in (move for name in names for move in VARIATIONS[name]):
        chosen = torch.rand(len(images), generator=generator) < 0.5
        images = torch.where(chosen[:, None, None, None], move(images), images)
    return images


def check_square(names: Sequence[str], shape: Sequence[int]) -> None:
    """Raise a ValueError if `names` contains a rotation and the images are not square."""
    if "rotate" in names and shape[1] != shape[2]:
        raise ValueError(f"only square images can be rotated, these are {shape[1]} x {shape[2]}")


@dataclass(frozen=True)
class Budget(Settings):
    """The training settings that all arms of a comparison share.

    training: steps, batch size, learning rate, ...
    variation: random variation of the training rows
    energy_warmup: initial steps in which an energy head trains only its proposal
    evaluation: the settings of the evaluation; its curve_* define the validation curve
    """

    training: TrainSettings
    variation: Variation = field(default_factory=Variation)
    energy_warmup: Natural = 0
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)

    def as_dict(self) -> dict[str, Any]:
        """The settings that the weights of a run depend on, as plain JSON."""
        curve = {key: value for key, value in asdict(self.evaluation).items() if key.startswith("curve")}
        curve["whole_pixels"] = self.evaluation.whole_pixels
        found = {
            "training": self.training.identity(),
            "variation": asdict(self.variation),
            "energy_warmup": self.energy_warmup,
            "curve": curve,
        }
        return dict(json.loads(json.dumps(found)))


class ArmRun(Run[RowModel]):
    """The training of an arm. The seed determines the initial weights, the order of the rows and all random draws."""

    key = "model"
    files = (CONFIG, WEIGHTS, LIKELIHOOD)

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
        identity = {"spec": json.loads(json.dumps(asdict(spec))), **budget.as_dict(), "data": of_data, "seed": seed}
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
        """The negative log-likelihood of joint and marginal queries on validation rows, in nats per variable.

        `validation_loss` is the value of the marginal, or of the joint for a model that answers joint queries only.
        """
        settings = self.budget.evaluation
        count = min(settings.curve_rows, len(self.data.valid))
        found = {}
        for name, queries in curve_queries(count, self.data.shape, settings).items():
            if name == "joint" or self.model.any_query:
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

    def describe(self, row: Mapping[str, float]) -> str:
        """The training loss, and the likelihoods of the validation rows in the unit and with the sign of the tables."""
        unit = unit_of(self.data.levels is not None, self.data.num_variables)
        found = ", ".join(f"{name} {unit.factor * row[name]:.4g}" for name in ("joint", "marginal") if name in row)
        return f"training loss {row['loss']:.4g}; validation rows: {found} {unit.name} ({unit.better} is better)"

    def write_model(self, facts: Mapping[str, Any]) -> None:
        checkpoint.save(self.average, self.spec, self.folder, self.data.record(), facts, self.identity)

    def read_facts(self) -> tuple[TrainingFacts, Mapping[str, Any]] | None:
        if not (self.folder / CONFIG).exists():
            return None
        config = checkpoint.read_config(self.folder)
        return TrainingFacts.of(config["training"], str(self.folder / CONFIG)), config["identity"]
