"""In-memory training of an any-order model on a table with missing values."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from mac_policy.common.checks import check_range
from mac_policy.common.settings import Count, NonNegative, Positive, Settings, choice
from mac_policy.rows.model import AnyOrderRows, Draws
from mac_policy.rows.spec import ModelSpec, make_any_order
from mac_policy.training.fabric import Fabric, make_fabric
from mac_policy.training.loop import Loop, TrainingDiverged
from mac_policy.training.settings import TrainSettings
from mac_policy.training.streams import stream

METHOD = {"uniform": "ardm", "mac": "mac-both"}  # the method for each value of the option `factorization`
DEVICES = ("cpu", "auto", "cuda", "gpu", "mps", "tpu")
FEWEST_HELD_OUT = 10
MIN_LOG_STD = -3.0  # 0.05 standard deviations: bounds the density of rounded values
SEEDS = 2**32
VALIDATION_QUESTIONS = 2048  # of the held-out rows, the same at each validation

_GLOBAL_STATE = threading.Lock()
"""Held while torch's global generator, which layers draw from, is in use: fits in several threads run one by one."""


@dataclass(frozen=True)
class ImputerSettings(Settings):
    """The parameters of an Imputer that the trained weights depend on, validated."""

    factorization: Annotated[str, choice(METHOD)]
    steps: Count
    batch_size: Count
    learning_rate: Positive
    width: Count
    depth: Count
    num_components: Count
    dropout: Annotated[float, partial(check_range, low=0, high=0.99)]
    noise: NonNegative
    validation: Annotated[float, partial(check_range, low=0, high=0.9)]
    device: Annotated[str, choice(DEVICES)]

    def __post_init__(self) -> None:
        super().__post_init__()
        training = self.training()
        try:
            make_fabric(training)
        except (RuntimeError, ValueError, ModuleNotFoundError) as error:
            raise ValueError(f"device {self.device!r} is not available for training: {error}") from None

    def training(self) -> TrainSettings:
        steps = int(self.steps)
        return TrainSettings(
            steps=steps,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            validation=self.validation,
            validations=min(20, steps),
            patience=8,
            weights="best" if self.validation else "last",
            precision="fp32",
            save_seconds=1e9,
            accelerator=self.device,
        )

    def spec(self, num_variables: int) -> ModelSpec:
        return ModelSpec(
            METHOD[self.factorization],
            (num_variables,),
            None,
            {"kind": "mlp", "residual": True, "width": self.width, "depth": self.depth, "dropout": self.dropout},
            {"kind": "mixture", "num_components": self.num_components, "min_log_std": MIN_LOG_STD},
        )


class TableLoop(Loop[AnyOrderRows]):
    """The training of a model on standardised rows (R, N), NaN = missing, some of which are held out."""

    def __init__(
        self, model: AnyOrderRows, rows: Tensor, settings: ImputerSettings, seed: int, fabric: Fabric, quiet: bool
    ) -> None:
        self.train_rows, self.held_out = hold_out(rows, settings.validation, seed)
        self.noise = settings.noise
        super().__init__(
            model,
            len(self.train_rows),
            settings.training(),
            name="imputer",
            seed=seed,
            fabric=fabric,
            quiet=quiet,
        )

    def inputs(self, step: int) -> tuple[Any, ...]:
        x = self.train_rows[self.shuffle.batch(step)]
        x = x + self.noise * torch.randn(x.shape, generator=stream(self.seed, "noise", step))
        return self._loss_inputs(x, self.model.draw(len(x), stream(self.seed, "draws", step)))

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """The loss on the held-out rows, with the same random draws at each validation."""
        if len(self.held_out) == 0:
            return {}
        x = self.held_out.repeat(-(-VALIDATION_QUESTIONS // len(self.held_out)), 1)
        draws = self.model.draw(len(x), stream(self.seed, "validation"))
        mode = self.average.training
        loss = self.average.eval()(*self._loss_inputs(x, draws))
        self.average.train(mode)
        return {"validation_loss": float(loss)}

    def _loss_inputs(self, x: Tensor, draws: Draws) -> tuple[Any, ...]:
        """The arguments of the loss. Missing values are neither evidence nor queried."""
        x = x.to(self.fabric.device)
        return x, draws.to(self.fabric.device), None, 1.0, x.isnan()


def hold_out(rows: Tensor, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """A random split into training rows and held-out rows; no rows are held out if they would be too few."""
    count = round(share * len(rows))
    if count < FEWEST_HELD_OUT:
        return rows, rows[:0]
    order = torch.randperm(len(rows), generator=stream(seed, "held out"))
    return rows[order[count:]], rows[order[:count]]


def trained_model(
    rows: Tensor, settings: ImputerSettings, seed: int, *, quiet: bool = True
) -> tuple[AnyOrderRows, TableLoop]:
    """A model trained on standardised rows (R, N), NaN = missing, in double precision; and its training loop."""
    training = settings.training()
    fabric = make_fabric(training)
    with _GLOBAL_STATE, torch.random.fork_rng():
        torch.manual_seed(seed)
        model = make_any_order(settings.spec(rows.shape[1]))
        torch.manual_seed(seed)  # dropout draws from the global state
        run = TableLoop(model, rows, settings, seed, fabric, quiet)
        try:
            run.fit()
        except TrainingDiverged as error:
            raise RuntimeError(
                f"the training diverged (NaN or infinite loss) at step {error.step} of {training.steps}: "
                f"a learning_rate below {training.learning_rate:g} may help"
            ) from None
    return run.average.cpu().double().eval().requires_grad_(False), run


def seed_from(random_state: Any) -> int:
    """The seed for a `random_state`: an integer itself, the next draw of a generator, a new random seed for None.

    >>> from mac_policy.rows.imputer.training import seed_from
    >>> seed_from(7)
    7
    """
    if random_state is None:
        return int(np.random.default_rng().integers(SEEDS))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(SEEDS))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(SEEDS, dtype=np.uint64))
    if isinstance(random_state, Integral) and not isinstance(random_state, bool) and 0 <= int(random_state) < SEEDS:
        return int(random_state)
    raise ValueError(
        f"random_state must be None, a whole number from 0 to 2**32 - 1, or a numpy RandomState or Generator, "
        f"got {random_state!r}"
    )
