"""What every head and every univariate conditional has: shapes, checks, explicit randomness."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from inspect import signature
from typing import Protocol

import torch
from torch import Tensor, nn

from mac_policy.core.checks import check_entries

MOST_COMPONENTS = 100_000
"""Of a mixture."""


class Conditional(Protocol):
    """Univariate distributions, one for each entry of ``batch_shape`` (usually ``(B, N)``)."""

    @property
    def batch_shape(self) -> torch.Size: ...

    @property
    def mode(self) -> Tensor: ...

    @property
    def mean(self) -> Tensor: ...

    def log_prob(self, x: Tensor) -> Tensor: ...

    def sample(self, temperature: float = 1.0, generator: torch.Generator | None = None) -> Tensor: ...

    def log_prob_grid(self, points: Tensor) -> Tensor: ...


class Head(nn.Module, ABC):
    """Turns the numbers a network gives for a variable into that variable's conditional.

    ``num_params`` numbers are read for each variable; an observed value is shown to a network as
    ``num_features`` numbers. Values that nobody uses (unseen, not asked for) may be anything, NaN
    included: ``check`` looks only where it is told to.
    """

    num_params: int
    num_features: int
    discrete: bool
    __call__: Callable[..., Conditional]
    allowed: str
    """The values a variable can have, in words, for error messages."""

    @abstractmethod
    def features(self, x: Tensor, variables: Tensor | None = None) -> Tensor:
        """``(...)`` values to ``(..., num_features)`` numbers of about unit size."""

    @abstractmethod
    def forward(
        self, params: Tensor, variables: Tensor | None = None, generator: torch.Generator | None = None
    ) -> Conditional:
        """``(..., num_params)`` to conditionals of batch shape ``(...)``.

        ``variables`` (...) long says which variable each entry is (by default 0..N-1 along the last axis);
        only heads that treat variables differently look at it. ``generator`` is for heads whose density
        is estimated with random numbers.
        """

    @abstractmethod
    def valid(self, x: Tensor) -> Tensor:
        """``(...)`` bool: whether each value is one the head can have."""

    @property
    def num_turns(self) -> int:
        """In how many turns variables are drawn that are answered in one step; one unless they depend on each other."""
        return 1

    def turn(self, variables: Tensor, num_variables: int) -> Tensor:
        """``(...)`` the turn 0 .. num_turns - 1 in which each variable is drawn."""
        return torch.zeros_like(variables)

    def after(self, params: Tensor, x: Tensor, together: Tensor) -> Tensor:
        """``(R, N, num_params)`` given the values x ``(R, N)`` of those `together` (bool) with an earlier turn."""
        return params

    def moved(self, params: Tensor, shift: Tensor, scale: Tensor, variables: Tensor | int | None = None) -> Tensor:
        """``(..., num_params)`` of the conditionals whose location m becomes ``shift + scale * m``, for heads of real
        values; spreads stay. ``shift`` (...) and ``scale`` have one number for each conditional."""
        raise TypeError(f"the conditionals of {type(self).__name__} have no location that a frame could move")

    def loss(
        self,
        params: Tensor,
        x: Tensor,
        generator: torch.Generator | None = None,
        variables: Tensor | None = None,
    ) -> Tensor:
        """``(...)`` training loss for each variable, -log p(x) unless a head says otherwise."""
        return -self(params, variables, generator).log_prob(x)

    def check(self, x: Tensor, where: Tensor) -> None:
        """Raises ValueError naming the first value in ``where`` that the head cannot have."""
        check_entries("x", x, where & ~self.valid(x), self.allowed)

    def extra_repr(self) -> str:
        names = (name for name in signature(type(self)).parameters if hasattr(self, name))
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)

    def _read(self, params: Tensor) -> Tensor:
        if params.ndim < 1 or params.shape[-1] != self.num_params:
            raise ValueError(
                f"params have shape {tuple(params.shape)}: the last axis must hold the "
                f"{self.num_params} parameters of {type(self).__name__}"
            )
        return at_least_float32(params)


def at_least_float32(x: Tensor) -> Tensor:
    """Half precision and integers become float32; float32 and float64 stay."""
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def bounded(raw: Tensor, low: float, high: float) -> Tensor:
    """Smoothly keeps ``raw`` inside [low, high]; near the identity well inside, monotone everywhere."""
    floored = low + nn.functional.softplus(raw - low)
    return (high - nn.functional.softplus(high - floored)).clamp(low, high)


def unbounded(value: float, low: float, high: float) -> float:
    """The raw number that ``bounded`` maps to ``value``, or to the nearest it may come to."""
    value = min(max(value, low + 1e-3), high - 1e-3)
    floored = high - math.log(math.expm1(high - value))
    return floored if floored - low > 30 else low + math.log(math.expm1(floored - low))


def uniform(shape: torch.Size, like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Uniform numbers strictly inside (0, 1), with the dtype and device of ``like``.

    Without a generator a fresh one is seeded by the operating system: the global state stays untouched.
    With one the numbers are drawn where it lives and moved: a generator of the CPU serves a model on any device.
    """
    if generator is None:
        generator = torch.Generator(device=like.device)
        generator.seed()
    u = torch.rand(shape, dtype=like.dtype, device=generator.device, generator=generator).to(like.device)
    eps = torch.finfo(like.dtype).eps
    return u.clamp(eps, 1 - eps)


def draw_index(logits: Tensor, generator: torch.Generator | None) -> Tensor:
    """``(..., K)`` logits to ``(...)`` long drawn from softmax(logits), by inverting the CDF."""
    cdf = logits.softmax(-1).cumsum(-1)
    u = uniform(logits.shape[:-1], logits, generator)[..., None]
    below: Tensor = (cdf <= u * cdf[..., -1:]).sum(-1)
    return below.clamp(max=logits.shape[-1] - 1)


def take(x: Tensor, index: Tensor) -> Tensor:
    """``(..., K)`` and ``(...)`` long to ``(...)``: the chosen entry of the last axis."""
    return x.gather(-1, index[..., None])[..., 0]
