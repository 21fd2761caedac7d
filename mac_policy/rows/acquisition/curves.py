"""The errors of a target against the number of known variables."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from mac_policy.rows.acquisition.information_gain import (
    ConditionalModel,
    Reward,
    greedy_order,
    information_gain,
    known_after,
    random_order,
)
from mac_policy.rows.acquisition.latent import latent_information_gain
from mac_policy.rows.acquisition.settings import AcquisitionSettings
from mac_policy.rows.baselines.latent import LatentModel
from mac_policy.training.streams import stream

ROWS_PER_PASS = 8192  # of a network pass, and draws that are answered together


class Curves(NamedTuple):
    """The errors of each row (R, D + 1) with 0, 1, ..., D known variables: the squared error of the mean, over targets;
    -log p(x_target | x_given) in nats."""

    squared: Tensor
    nll: Tensor


@torch.no_grad()
def error_curves(
    model: ConditionalModel,
    x: Tensor,
    target: Tensor,
    order: Tensor,
    *,
    num_samples: int = 100,
    generator: torch.Generator | None = None,
) -> Curves:
    """The errors of rows x (R, N) as their variables become known in `order` (R, D). target: (N,) bool."""
    steps = order.shape[1] + 1
    given = torch.cat([known_after(order, count, x.shape[1]) for count in range(steps)])  # (steps * R, N)
    rows = x.repeat(steps, 1)
    asked = target.expand_as(given)
    nll = -model.log_prob(rows, query=asked, given=given, generator=generator)["model"]
    portion = max(1, ROWS_PER_PASS // num_samples)
    squared = torch.cat(
        [
            _squared_error(model, part, known, target, num_samples, generator)
            for part, known in zip(rows.split(portion), given.split(portion), strict=True)
        ]
    )
    return Curves(squared.view(steps, -1).T.contiguous(), nll.view(steps, -1).T.contiguous())


def _squared_error(
    model: ConditionalModel,
    x: Tensor,
    given: Tensor,
    target: Tensor,
    num_samples: int,
    generator: torch.Generator | None,
) -> Tensor:
    """(R,), with the mean of draws as prediction; each target is drawn independently."""
    known = torch.where(given, x, torch.zeros_like(x))
    drawn = model.sample(known, given=given, num_samples=num_samples, steps=1, generator=generator)
    predicted = drawn.view(num_samples, *x.shape)[..., target].mean(0)
    return (predicted - x[:, target]).square().mean(1)


def measured_curves(
    model: ConditionalModel,
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
        for key in Curves._fields:  # every order starts with nothing and ends with everything
            found[f"{name}.{key}"][:, [0, -1]] = found[f"random.{key}"][:, [0, -1]]
    return found


def _order(
    name: str,
    model: ConditionalModel,
    train: Tensor,
    test: Tensor,
    target: Tensor,
    settings: AcquisitionSettings,
    seed: int,
) -> Tensor:
    """(R, D); for 'random', several for each row, (random_orders * R, D)."""
    if name == "random":
        return random_order(settings.random_orders * len(test), target, stream(seed, "random orders"))
    if name == "fixed":
        return (~target).nonzero()[:, 0].expand(len(test), -1)
    shared = name == "shared"
    found = greedy_order(
        model,
        train[: settings.shared_rows] if shared else test,
        target,
        shared=shared,
        reward=reward_of(model, settings),
        generator=stream(seed, f"rewards {name}"),
    )
    return found[:1].expand(len(test), -1) if shared else found


def reward_of(model: ConditionalModel, settings: AcquisitionSettings) -> Reward:
    """The reward for a model, with the numbers of draws in the settings."""
    if isinstance(model, LatentModel):
        samples, latents = settings.baseline_samples, settings.importance_samples
        return partial(latent_information_gain, num_samples=samples, latents=latents)
    return partial(information_gain, num_samples=settings.num_samples, rows_per_pass=ROWS_PER_PASS)
