"""Snapshots of an image along its path: the sampled variables and the means of all others (SFARM, Fig. 1)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from mac_policy.common.checks import check_count
from mac_policy.common.settings import Count, Natural, Positive, Settings
from mac_policy.core.question import in_fewer_steps
from mac_policy.rows.generation.infill import GREY
from mac_policy.rows.model import AnyOrderRows, RowModel
from mac_policy.training.streams import stream


@dataclass(frozen=True)
class Generation(Settings):
    """The settings of a generation.

    images: number of images; moments: snapshots along the path, from the empty to the complete image; steps: network
    passes of the sampling.
    """

    images: Count = 4
    moments: Annotated[int, partial(check_count, least=2)] = 8
    steps: Count = 128
    temperature: Positive = 1.0
    seed: Natural = 0


class Snapshots(NamedTuple):
    """Images (B, N) at M moments of their paths."""

    active: Tensor  # (M, B, N) bool: the variables sampled so far
    values: Tensor  # (M, B, N), 0 where a variable is not active
    means: Tensor  # (M, B, N) float: active values, and the model's means of all other variables


@torch.no_grad()
def generation(model: AnyOrderRows, asked: Generation) -> Snapshots:
    """Sample images along one path each, with snapshots after equal shares of the steps.

    Between two moments, `model.sample` samples the variables that become active, with one network pass for each step.
    The means of a snapshot take additional passes.
    """
    steps, number = step_of_each(model, asked)
    generator = stream(asked.seed, "generation")
    x = torch.zeros(asked.images, model.num_variables, dtype=torch.uint8)
    active = torch.zeros_like(x, dtype=torch.bool)
    found = []
    reached = 0
    for moment in range(asked.moments):
        end = number * moment // (asked.moments - 1)
        if end > reached:
            later = steps >= end
            x = model.sample(
                x, given=active, missing=later, steps=end - reached, temperature=asked.temperature, generator=generator
            )
            x, active, reached = x.masked_fill(later, 0), ~later, end
        found.append((active, x, expected(model, x, active)))
    return Snapshots(*(torch.stack(parts) for parts in zip(*found, strict=True)))


def step_of_each(model: AnyOrderRows, asked: Generation) -> tuple[Tensor, int]:
    """The pass 0, 1, ... in which each variable of each image is sampled (B, N), and the number of passes."""
    query = torch.ones(asked.images, model.num_variables, dtype=torch.bool)
    ranks = model.factorization.ranks(query=query, given=~query, generator=stream(asked.seed, "path"))
    steps = in_fewer_steps(ranks, query, asked.steps)
    number = 1 + int(steps.max())
    if asked.moments > number + 1:
        raise ValueError(
            f"moments={asked.moments} are too many for {number} network passes, which have {number + 1} with their "
            f"beginning: choose fewer moments{' or more steps' if number == asked.steps else ''}"
        )
    return steps, number


def expected(model: AnyOrderRows, x: Tensor, active: Tensor) -> Tensor:
    """The active values, and the mean of every other variable given them (B, N).

    A head that samples channels in turns parameterises a channel relative to the previous channels. Its mean is
    computed given the means of the previous channels, which approximates the mean of its samples.
    """
    any_order, mode = model.model, model.factorization.path_mode(len(x))
    if any_order.head.num_turns == 1:
        means = any_order.conditionals(x, evidence=active, mode=mode, factorization=model.factorization).mean
        return torch.where(active, x.to(means.dtype), means)
    head, variables = any_order.head, torch.arange(x.shape[1])
    params = any_order.network(head.features(x), active, None, mode)
    filled, before = x.to(params.dtype), torch.zeros_like(active)
    turns = head.turn(variables, x.shape[1])
    for turn in range(head.num_turns):
        now = turns == turn
        means = head(head.after(params, filled, before)[:, now], variables=variables[now]).mean
        filled[:, now] = torch.where(active[:, now], filled[:, now], means)
        before[:, now] = True
    return filled


def check_path(model: RowModel, arm: str) -> AnyOrderRows:
    """Return the model. ValueError unless the model samples an image variable by variable."""
    if not isinstance(model, AnyOrderRows):
        raise ValueError(f"the arm {arm} has no path from pixel to pixel: choose an any-order arm, such as sfarm")
    return model


def generation_rows(snapshots: Snapshots, levels: int) -> dict[str, Tensor]:
    """The rows of a picture by name (M, N), two for each image: active values on grey, and means."""
    grey = GREY / 255 * (levels - 1)
    states = snapshots.values.float().masked_fill(~snapshots.active, grey)
    means = snapshots.means.float().clamp(0, levels - 1)
    kinds = {"active": states, "mean": means}
    return {f"{i + 1} {kind}": values[:, i] for i in range(states.shape[1]) for kind, values in kinds.items()}


def shares(snapshots: Snapshots) -> list[str]:
    """The share of active variables at each moment.

    >>> import torch
    >>> from mac_policy.rows.generation.along_path import Snapshots, shares
    >>> shares(Snapshots(torch.tensor([[[False, False]], [[True, False]]]), torch.zeros(2, 1, 2), torch.zeros(2, 1, 2)))
    ['0%', '50%']
    """
    return [f"{float(active.float().mean()):.0%}" for active in snapshots.active]
