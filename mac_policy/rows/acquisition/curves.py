"""Errors of a target against the number of variables that are known."""

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

ROWS_PER_PASS = 8192  # of a network, and draws that are answered together


class Curves(NamedTuple):
    """Of each row (R, D + 1), after 0, 1, ..., D variables: the squared error of the mean, the mean over targets; and
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
    """The errors of rows x (R, N) whose variables become known in `order` (R, D). target: (N,) bool."""
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
    """(R,), by the mean of draws of each target on its own."""
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
    """'<order>.squared', '<order>.nll' (R, D + 1) and '<order>.order' (R, D) of test rows, for each of the orders.

    Random orders are those of the seed, the same for every model; the errors of a row's several ones are averaged.
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
        for key in Curves._fields:  # nothing and everything known are the same question in every order
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
    """(R, D); of 'random' several for each row, (random_orders * R, D)."""
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
    """What looking at a variable is worth to the model, estimated from as many draws as the settings say."""
    if isinstance(model, LatentModel):
        samples, latents = settings.baseline_samples, settings.importance_samples
        return partial(latent_information_gain, num_samples=samples, latents=latents)
    return partial(information_gain, num_samples=settings.num_samples, rows_per_pass=ROWS_PER_PASS)
