"""A head for real values of which some are rounded to the points of a lattice, such as whole numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from mac_policy.core.heads.continuous import HALF_LOG_2PI, GaussianMixture, MixtureConditional, gaussian_log_prob

NARROW = 0.03
"""Standard deviations of a component: in a narrower cell its density is taken to be constant (within 4e-5)."""
TAIL = 30.0
"""Standard deviations from which the tail of a Gaussian is its asymptote, density / distance (within 1e-3)."""


class RoundedConditional(MixtureConditional):
    """A mixture of Gaussians in which a value stands for its cell of the lattice, from x - width/2 to x + width/2.

    log_prob is the log of the mass of the cell, and samples lie on the lattice. Where the width (...) is 0, both are
    those of the mixture. Mode, mean, standard deviation and quantiles are the mixture's everywhere.
    """

    def __init__(self, mixture: MixtureConditional, width: Tensor, origin: Tensor) -> None:
        self.log_weights, self.means, self.log_stds = mixture.log_weights, mixture.means, mixture.log_stds
        self.width, self.origin = width, origin  # (...), a point of the lattice

    def log_prob(self, x: Tensor) -> Tensor:
        return self._log_mass(x, self.log_weights, self.means, self.log_stds, self.width)

    def log_prob_grid(self, points: Tensor) -> Tensor:
        log_weights, means, log_stds = (part[..., None, :] for part in (self.log_weights, self.means, self.log_stds))
        return self._log_mass(points, log_weights, means, log_stds, self.width[..., None])

    def _log_mass(self, x: Tensor, log_weights: Tensor, means: Tensor, log_stds: Tensor, width: Tensor) -> Tensor:
        width = width[..., None]
        density = gaussian_log_prob(x[..., None], means, log_stds)
        wide = width > NARROW * log_stds.exp()
        mass = _log_mass(x[..., None], torch.where(wide, width, log_stds.exp()), means, log_stds)
        narrow = density + torch.where(width > 0, width, 1.0).log()
        return (log_weights + torch.where(wide, mass, narrow)).logsumexp(-1)

    def draw(self, generator: torch.Generator | None) -> Tensor:
        return self._rounded(super().draw(generator))

    def tempered(self, temperature: float) -> RoundedConditional:
        return RoundedConditional(super().tempered(temperature), self.width, self.origin)

    def _rounded(self, x: Tensor) -> Tensor:
        step = torch.where(self.width > 0, self.width, 1.0)
        return torch.where(self.width > 0, self.origin + step * ((x - self.origin) / step).round(), x)


def _log_mass(x: Tensor, width: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """log of the mass of N(mean, std^2) within width / 2 of x, in the tail that keeps its digits.

    In double precision, and by the asymptote of the tail where it is far: so gradients stay right.
    """
    inverse = (-log_std.double()).exp()
    begin, step = ((x - mean) * inverse).abs() - 0.5 * width * inverse, width * inverse  # of the cell, in std
    is_far = begin > TAIL
    near, far = torch.where(is_far, 0.0, begin), torch.where(is_far, begin, TAIL)
    upper, lower = torch.special.log_ndtr(-near), torch.special.log_ndtr(-near - step)
    of_near = upper + (-torch.expm1(lower - upper)).log()
    share = far / (far + step) * (-step * (far + 0.5 * step)).exp()  # of the tail, beyond the cell
    of_far = -0.5 * far.square() - far.log() - HALF_LOG_2PI + torch.log1p(-share)
    return torch.where(is_far, of_far, of_near).to(mean.dtype)


class RoundedMixture(GaussianMixture):
    """A mixture of K Gaussians for each variable, some of which are rounded to the points of a lattice.

    widths (N,): distance of the points of each variable's lattice, 0 for real values; origins (N,): a point of it.

        head = RoundedMixture(10, widths=[0.0, 1.0], origins=[0.0, 0.0])  # a real value beside a whole number
        head(network_output).log_prob(x)  # a density beside a probability
    """

    widths: Tensor
    origins: Tensor

    def __init__(
        self,
        num_components: int,
        widths: Sequence[float],
        origins: Sequence[float],
        min_log_std: float | None = None,
    ) -> None:
        super().__init__(num_components, min_log_std)
        if (
            len(widths) != len(origins)
            or not all(math.isfinite(each) for each in (*widths, *origins))
            or min(widths) < 0
        ):
            raise ValueError(
                f"widths and origins must hold a finite number for each variable, and widths none below 0; got "
                f"{list(widths)} and {list(origins)}"
            )
        self.register_buffer("widths", torch.tensor(widths, dtype=torch.float64), persistent=False)
        self.register_buffer("origins", torch.tensor(origins, dtype=torch.float64), persistent=False)

    def forward(
        self, params: Tensor, variables: Tensor | None = None, generator: torch.Generator | None = None
    ) -> RoundedConditional:
        mixture = super().forward(params, variables, generator)
        shape = mixture.batch_shape
        if variables is None and shape[-1:] != self.widths.shape:
            raise ValueError(f"the last axis must hold {len(self.widths)} variables, got shape {tuple(shape)}")
        lattice = (
            (self.widths, self.origins) if variables is None else (self.widths[variables], self.origins[variables])
        )
        return RoundedConditional(mixture, *(part.to(mixture.means.dtype).expand(shape) for part in lattice))

    def extra_repr(self) -> str:
        return f"num_components={self.num_components}, rounded={int((self.widths > 0).sum())} of {len(self.widths)}"
