"""In-memory training of an any-order model on a table with missing values."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from mac_policy.common.checks import check_count, check_range
from mac_policy.common.settings import Count, Depth, NonNegative, Positive, Rows, Settings, Size, choice
from mac_policy.core import AnyOrderModel, Factorization, MaskTuned, UniformCardinality
from mac_policy.core.heads import Head
from mac_policy.rows.columns.columns import Columns
from mac_policy.rows.imputer.calibration import calibrate
from mac_policy.rows.imputer.encoding import Encoding
from mac_policy.rows.imputer.law import MostlyKnown
from mac_policy.rows.imputer.linear import JointGaussian, fit_gaussian
from mac_policy.rows.imputer.members import Ensemble, MemberNetwork, Members
from mac_policy.rows.model import AnyOrderRows, Draws
from mac_policy.training.fabric import Fabric, make_fabric
from mac_policy.training.loop import Loop, TrainingDiverged
from mac_policy.training.settings import TrainSettings
from mac_policy.training.streams import Shuffle, stream

DEVICES = ("cpu", "auto", "cuda", "gpu", "mps", "tpu")
FACTORIZATIONS = ("uniform", "mac")
FEWEST_HELD_OUT = 5
SEEDS = 2**32
QUESTIONS = 512  # for each member at a validation, the same ones each time
FIRST_VALIDATION = 20  # steps
SPACING = 1.1  # ratio between the steps of successive validations
LONGER = 1.3  # the training goes on until this many times the step of the last gain, at least
LEAST_GAIN = 1e-3  # fall of the loss, in nats a variable, that counts as a gain
WIDE = 40  # variables: a step takes fewer rows of a wider table, and as many of its cells
FEWEST_ROWS = 16  # of a step for each member

_GLOBAL_STATE = threading.Lock()
"""Held while torch's global generator, which layers draw from, is in use: fits in several threads run one by one."""


@dataclass(frozen=True)
class ImputerSettings(Settings):
    """The parameters of an Imputer that the trained weights depend on, validated."""

    factorization: Annotated[str, choice(FACTORIZATIONS)]
    members: Depth
    steps: Count
    patience: Count
    batch_size: Rows
    learning_rate: Positive
    width: Size
    depth: Depth
    num_components: Size
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

    def rows_each(self, num_variables: int = 1) -> int:
        """Rows of a step for each member."""
        rows = max(1, self.batch_size // self.members)
        return min(rows, max(FEWEST_ROWS, rows * WIDE // max(WIDE, num_variables)))

    def training(self, num_variables: int = 1) -> TrainSettings:
        return TrainSettings(
            steps=int(self.steps),
            batch_size=self.rows_each(num_variables) * self.members,
            learning_rate=self.learning_rate,
            warmup=min(20, int(self.steps)) if self.steps > 1 else 0,
            schedule="constant",
            weight_decay=1e-2,
            ema=0.99,
            validation=self.validation,
            weights="best" if self.validation else "last",
            precision="fp32",
            save_seconds=1e9,
            accelerator=self.device,
        )

    def law(self, num_variables: int) -> Factorization:
        """The conditionals that are trained."""
        if self.factorization == "uniform":
            return MostlyKnown(num_variables)
        return MaskTuned(UniformCardinality(num_variables), query="both")


class TableLoop(Loop[AnyOrderRows]):
    """The training of M members on encoded rows (R, N), NaN = missing. Each member holds out rows of its own.

    Validations are close together at first, so that the training of a small table ends soon after its optimum.
    """

    def __init__(
        self,
        model: AnyOrderRows,
        rows: Tensor,
        parts: Sequence[tuple[Tensor, Tensor]],
        settings: ImputerSettings,
        seed: int,
        fabric: Fabric,
        quiet: bool,
    ) -> None:
        self.table, self.parts = rows, parts
        self.patience, self.rows_each = settings.patience, settings.rows_each(rows.shape[1])
        self.gain_step, self.gained, self.next_validation = 0, math.inf, FIRST_VALIDATION
        super().__init__(
            model,
            len(rows),
            settings.training(rows.shape[1]),
            name="imputer",
            seed=seed,
            fabric=fabric,
            quiet=quiet,
        )
        self.shuffles = [
            Shuffle(len(train), self.rows_each, seed + member * SEEDS) for member, (train, _) in enumerate(parts)
        ]
        self.questions = self._questions()

    def inputs(self, step: int) -> tuple[Any, ...]:
        chosen = [train[shuffle.batch(step)] for shuffle, (train, _) in zip(self.shuffles, self.parts, strict=True)]
        x = self.table[torch.cat(chosen)]
        return self._loss_inputs(x, self.model.draw(len(x), stream(self.seed, "draws", step)))

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """The loss on the held-out rows, with the same random draws at each validation."""
        if self.questions is None:
            return {}
        mode = self.average.training
        loss = self.average.eval()(*self.questions)
        self.average.train(mode)
        return {"validation_loss": float(loss)}

    def keep_best(self) -> None:
        super().keep_best()
        if self.best < self.gained - LEAST_GAIN:
            self.gain_step, self.gained = self.step, self.best

    def is_due(self) -> bool:
        if self.step < self.next_validation:
            return False
        self.next_validation = max(self.step + FIRST_VALIDATION, round(self.step * SPACING))
        return True

    def has_stalled(self) -> bool:
        if self.questions is None:
            return False
        return self.step >= max(self.gain_step + self.patience, round(LONGER * self.gain_step))

    def _questions(self) -> tuple[Any, ...] | None:
        held_out = [held for _, held in self.parts]
        if any(len(held) == 0 for held in held_out):
            return None
        x = self.table[torch.cat([held.repeat(-(-QUESTIONS // len(held)))[:QUESTIONS] for held in held_out])]
        return self._loss_inputs(x, self.model.draw(len(x), stream(self.seed, "validation")))

    def _loss_inputs(self, x: Tensor, draws: Draws) -> tuple[Any, ...]:
        """The arguments of the loss. Missing values are neither evidence nor queried."""
        x = x.to(self.fabric.device)
        return x, draws.to(self.fabric.device), None, 1.0, x.isnan()


def split(rows: int, members: int, share: float, seed: int) -> list[tuple[Tensor, Tensor]]:
    """Training rows and held-out rows of each member. No rows are held out if they would be too few.

    The second half of what a member holds out is the first half of what the next one does, so that the calibration
    sees how two members that have not been trained on a row answer together.

    >>> from mac_policy.rows.imputer.training import split
    >>> [(len(train), len(held)) for train, held in split(100, members=2, share=0.2, seed=0)]
    [(80, 20), (80, 20)]
    """
    count = 2 * (round(share * rows) // 2)
    order = torch.randperm(rows, generator=stream(seed, "held out"))
    if count < FEWEST_HELD_OUT or rows - count < FEWEST_HELD_OUT:
        return [(order, order[:0])] * members
    turned = [order.roll(-(count // 2) * member) for member in range(members)]
    return [(turn[count:], turn[:count]) for turn in turned]


def trained_model(
    rows: Tensor, columns: Columns, settings: ImputerSettings, seed: int, *, quiet: bool = True
) -> tuple[AnyOrderRows, TableLoop]:
    """A model trained on encoded rows (R, N), NaN = missing, in double precision; and its training loop."""
    training = settings.training()
    fabric = make_fabric(training)
    parts = split(len(rows), settings.members, settings.validation, seed)
    law = settings.law(rows.shape[1])
    with _GLOBAL_STATE, torch.random.fork_rng():
        torch.manual_seed(seed)
        head = columns.head(settings.num_components)
        members = _members(rows, columns, parts, settings, head)
        torch.manual_seed(seed)  # dropout draws from the global state
        rows = members.encoding.believed(rows)
        capped = members.encoding.capped(rows).float()
        model = AnyOrderRows(AnyOrderModel(MemberNetwork(members, head), head, validate=False), law)
        run = TableLoop(model, capped, parts, settings, seed, fabric, quiet)
        try:
            run.fit()
        except TrainingDiverged as error:
            raise RuntimeError(
                f"the training diverged (NaN or infinite loss) at step {error.step} of {training.steps}: "
                f"a learning_rate below {training.learning_rate:g} may help"
            ) from None
    network = run.average.cpu().model.network
    if not isinstance(network, MemberNetwork):
        raise TypeError(f"the network is a {type(network).__name__}")
    found = network.members.double().eval().requires_grad_(False)
    mixed = columns.head(settings.num_components * settings.members)
    ensemble = Ensemble(found, mixed).double()
    if run.questions is not None:
        calibrate(ensemble, rows, [held for _, held in parts], seed)
    return AnyOrderRows(AnyOrderModel(ensemble, mixed.double(), validate=False), law).eval(), run


def _members(
    rows: Tensor, columns: Columns, parts: Sequence[tuple[Tensor, Tensor]], settings: ImputerSettings, head: Head
) -> Members:
    encoding = Encoding(rows, [len(column.classes) for column in columns.variables], head)
    x, observed = encoding.of_rows(rows)
    shared = len(parts[0][1]) == 0
    fits = [fit_gaussian(x[train], observed[train]) for train, _ in parts[: 1 if shared else None]]
    joint = JointGaussian(fits * len(parts) if shared else fits)
    return Members(
        joint,
        encoding,
        num_components=settings.num_components,
        width=settings.width,
        depth=settings.depth,
        dropout=settings.dropout,
        noise=settings.noise,
    )


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


def check_threads(n_jobs: int | None) -> int | None:
    """A number of threads, as the parameter n_jobs has it."""
    return n_jobs if n_jobs is None or n_jobs == -1 else check_count("n_jobs", n_jobs)


@contextmanager
def threads(n_jobs: int | None) -> Iterator[None]:
    """PyTorch with this many threads, -1 for all processors, None for one."""
    before = torch.get_num_threads()
    torch.set_num_threads(os.cpu_count() or 1 if n_jobs == -1 else n_jobs or 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
