"""What is asked of a policy: how a plan is to be made, and the random numbers of a training step."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from mac_policy.core.training_draws import map_tensors


class Request(NamedTuple):
    """How a plan is to be made."""

    deterministic: bool
    temperature: float | None
    generator: torch.Generator
    noise: Tensor | None = None
    """(B, ...): random numbers to use instead of fresh draws."""
    previous: Tensor | None = None
    """(B, act): the normalised actions of the previous step; NaN in rows without one."""

    def rows(self, chosen: Tensor) -> Request:
        noise, previous = (
            None if part is None else part[chosen.to(part.device)] for part in (self.noise, self.previous)
        )
        return self._replace(noise=noise, previous=previous)


class Draws(NamedTuple):
    """All random numbers of a training step; every tensor has a row for each row of the batch."""

    observation_noise: Tensor | None = None  # (n, history * obs), standard normal
    displacement: Tensor | None = None  # (n, P), of the observations that an action moves
    own: Any = None  # None or a NamedTuple: what the policy's loss draws

    def to(self, device: torch.device | str) -> Draws:
        return map_tensors(lambda part: part.to(device), self)

    def rows(self, rows: slice) -> Draws:
        return map_tensors(lambda part: part[rows], self)
