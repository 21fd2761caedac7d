"""The training of a model on the encoded rows of a table."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch import Tensor, nn

from mac_policy.core import AnyOrderModel, Factorization
from mac_policy.core.training_draws import TrainingDraws
from mac_policy.rows.columns import Columns
from mac_policy.rows.table_model.settings import TableSettings
from mac_policy.training.fabric import make_fabric
from mac_policy.training.loop import Loop
from mac_policy.training.streams import stream

FEWEST_HELD_OUT = 10
VALIDATION_QUESTIONS = 2048  # of the held-out rows, the same at each validation

_GLOBAL_STATE = threading.Lock()
"""Held while torch's global generator, which layers draw from, is in use: fits in several threads run one by one."""


class TableLoss(nn.Module):
    """The loss of a model as a module."""

    def __init__(self, model: AnyOrderModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, draws: TrainingDraws, missing: Tensor) -> Tensor:
        return self.model.loss(x, draws, missing=missing)


class TableLoop(Loop[TableLoss]):
    """The training on encoded rows (R, N), some of which are held out. Missing values are neither read nor queried."""

    def __init__(
        self,
        model: AnyOrderModel,
        factorization: Factorization,
        columns: Columns,
        values: Tensor,
        missing: Tensor,
        settings: TableSettings,
        *,
        seed: int,
        quiet: bool,
    ) -> None:
        self.factorization, self.values, self.missing = factorization, values.float(), missing
        self.kept, self.held_out = held_out(len(values), settings.validation, seed)
        self.noise = settings.noise * torch.tensor([float(not c.is_categorical) for c in columns.variables])
        training = settings.training()
        super().__init__(
            TableLoss(model),
            len(self.kept),
            training,
            name="table",
            seed=seed,
            fabric=make_fabric(training),
            quiet=quiet,
        )

    def inputs(self, step: int) -> tuple[Any, ...]:
        rows = self.kept[self.shuffle.batch(step)]
        x = self.values[rows]
        x = x + self.noise * torch.randn(x.shape, generator=stream(self.seed, "noise", step))
        return self._inputs(x, self.missing[rows], stream(self.seed, "draws", step))

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """The loss on the held-out rows, with the same random draws at each validation."""
        if not len(self.held_out):
            return {}
        rows = self.held_out.repeat(-(-VALIDATION_QUESTIONS // len(self.held_out)))
        mode = self.average.training
        loss = self.average.eval()(
            *self._inputs(self.values[rows], self.missing[rows], stream(self.seed, "validation"))
        )
        self.average.train(mode)
        return {"validation_loss": float(loss)}

    def _inputs(self, x: Tensor, missing: Tensor, generator: torch.Generator) -> tuple[Any, ...]:
        draws = self.model.model.asking.draw(self.factorization, len(x), generator)
        device = self.fabric.device
        return x.to(device), draws.to(device), missing.to(device)


def held_out(rows: int, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Indices of training rows and of held-out rows; no rows are held out if they would be too few."""
    count = round(share * rows)
    if count < FEWEST_HELD_OUT:
        return torch.arange(rows), torch.arange(0)
    order = torch.randperm(rows, generator=stream(seed, "held out"))
    return order[count:], order[:count]


def train(
    columns: Columns, values: Tensor, missing: Tensor, settings: TableSettings, *, seed: int, quiet: bool
) -> tuple[AnyOrderModel, Factorization, TableLoop]:
    """A model trained on encoded rows (R, N), in evaluation mode and double precision, its paths and its training."""
    seen = ~missing.all(1)  # rows without observed values carry no information
    with _GLOBAL_STATE, torch.random.fork_rng():
        torch.manual_seed(seed)
        model, factorization = settings.make(columns)
        torch.manual_seed(seed)  # dropout draws from the global state
        run = TableLoop(model, factorization, columns, values[seen], missing[seen], settings, seed=seed, quiet=quiet)
        run.fit()
    return ready(run.average.model), factorization, run


def ready(model: AnyOrderModel) -> AnyOrderModel:
    """The model as it is asked: on the CPU, in double precision, without dropout and gradients."""
    return model.cpu().double().eval().requires_grad_(False)
