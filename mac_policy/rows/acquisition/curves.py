"""Error curves: the error of a target against the number of known variables, and the settings of their experiment."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any, NamedTuple

import torch
from torch import Tensor

from mac_policy.common.settings import Count, Natural, Settings, choice
from mac_policy.rows.acquisition.information_gain import (
    Reward,
    greedy_order,
    information_gain,
    known_after,
    random_order,
)
from mac_policy.rows.acquisition.latent import latent_information_gain
from mac_policy.rows.baselines.latent import LatentModel
from mac_policy.rows.model import RowModel
from mac_policy.training.streams import stream

ROWS_PER_PASS = 8192  # rows of a network pass, and samples that share one
ORDERS = {
    "model": "for each row, the variable next that is most informative by the model",
    "shared": "one order for all rows: the variable next that is most informative on average over training rows",
    "fixed": "the columns in the order of the table",
    "random": "a random order for each row",
}


@dataclass(frozen=True)
class AcquisitionSettings(Settings):
    """The settings of an acquisition experiment.

    orders: orders of acquisition, out of `ORDERS`; 'random' must be one of them, as the reference
    num_samples: samples that estimate a reward; baseline_samples: the same for a model with a latent vector
    importance_samples: latent vectors of a row for the rewards (errors use the model's own number)
    prediction_samples: samples whose mean predicts the target
    random_orders: random orders of each row, whose errors are averaged
    rows: number of test rows (0: all); shared_rows: training rows whose mean reward defines the shared order
    """

    orders: tuple[Annotated[str, choice(ORDERS, "order")], ...] = tuple(ORDERS)
    num_samples: Count = 256
    baseline_samples: Count = 256
    importance_samples: Count = 1000
    prediction_samples: Count = 100
    random_orders: Count = 4
    rows: Natural = 0
    shared_rows: Count = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        if "random" not in self.orders or len(set(self.orders)) < len(self.orders):
            raise ValueError(f"orders must be different ones, 'random' among them, got {list(self.orders)}")

    def of(self, is_latent: bool) -> dict[str, Any]:
        """The settings that the results of a model depend on; is_latent: the model has a latent vector."""
        without = ("num_samples",) if is_latent else ("baseline_samples", "importance_samples")
        return {name: value for name, value in asdict(self).items() if name not in without}


class Curves(NamedTuple):
    """The errors (R, D + 1) of each row with 0, 1, ..., D known variables."""

    squared: Tensor  # squared error of the predicted mean, averaged over targets
    nll: Tensor  # -log p(x_target | x_known) in nats


@torch.no_grad()
def error_curves(
    model: RowModel,
    x: Tensor,
    target: Tensor,
    order: Tensor,
    *,
    num_samples: int = 100,
    generator: torch.Generator | None = None,
) -> Curves:
    """The errors of rows x (R, N) as their variables become known in `order` (R, D). target: bool (N,)."""
    steps = order.shape[1] + 1
    given = torch.cat([known_after(order, count, x.shape[1]) for count in range(steps)])  # (steps * R, N)
    rows = x.repeat(steps, 1)
    nll = -model.log_prob(rows, query=target.expand_as(given), given=given, generator=generator)["model"]
    portion = max(1, ROWS_PER_PASS // num_samples)
    parts = zip(rows.split(portion), given.split(portion), strict=True)
    squared = torch.cat([_squared_error(model, *part, target, num_samples, generator) for part in parts])
    return Curves(squared.view(steps, -1).T.contiguous(), nll.view(steps, -1).T.contiguous())


def _squared_error(
    model: RowModel,
    x: Tensor,
    given: Tensor,
    target: Tensor,
    num_samples: int,
    generator: torch.Generator | None,
) -> Tensor:
    """The squared error (R,) of the mean of samples; several targets are sampled independently."""
    known = torch.where(given, x, torch.zeros_like(x))
    drawn = model.sample(known, given=given, num_samples=num_samples, steps=1, generator=generator)
    predicted = drawn.view(num_samples, *x.shape)[..., target].mean(0)
    return (predicted - x[:, target]).square().mean(1)


def measured_curves(
    model: RowModel,
    train: Tensor,
    test: Tensor,
    target: Tensor,
    settings: AcquisitionSettings,
    *,
    seed: int,
) -> dict[str, Tensor]:
    """'<order>.squared', '<order>.nll' (R, D + 1) and '<order>.order' (R, D) of test rows, for each order.

    Random orders depend on the seed and are the same for every model; the errors of a row's random orders are averaged.
    """
    found: dict[str, Tensor] = {}
    for name in settings.orders:
        copies = settings.random_orders if name == "random" else 1
        order = _order(name, model, train, test, target, settings, seed)
        curves = error_curves(
            model,
            test.repeat(copies, 1),
            target,
            order,
            num_samples=settings.prediction_samples,
            generator=stream(seed, f"errors {name}"),
        )
        for key, values in curves._asdict().items():
            found[f"{name}.{key}"] = values.view(copies, len(test), -1).double().mean(0)
        found[f"{name}.order"] = order[: len(test)]
    for name in settings.orders:
        for key in Curves._fields:  # all orders share both ends: no variable known, every variable known
            found[f"{name}.{key}"][:, [0, -1]] = found[f"random.{key}"][:, [0, -1]]
    return found


def _order(
    name: str,
    model: RowModel,
    train: Tensor,
    test: Tensor,
    target: Tensor,
    settings: AcquisitionSettings,
    seed: int,
) -> Tensor:
    """The order of acquisition of each test row, (R, D); `random_orders` copies of it for 'random'."""
    if name == "random":
        return random_order(settings.random_orders * len(test), target, stream(seed, "random orders"))
    if name == "fixed":
        return (~target).nonzero()[:, 0].expand(len(test), -1)
    reward: Reward = partial(information_gain, num_samples=settings.num_samples, rows_per_pass=ROWS_PER_PASS)
    if isinstance(model, LatentModel):
        samples, latents = settings.baseline_samples, settings.importance_samples
        reward = partial(latent_information_gain, num_samples=samples, latents=latents)
    shared = name == "shared"
    rows = train[: settings.shared_rows] if shared else test
    found = greedy_order(model, rows, target, shared=shared, reward=reward, generator=stream(seed, f"rewards {name}"))
    return found[:1].expand(len(test), -1) if shared else found
