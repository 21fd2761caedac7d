"""ACE's head (Strauss & Oliva 2021): a learned energy on top of a mixture proposal.

The density is p(x_i) = exp(-E(x_i)) q(x_i) / Z: the energy tilts the proposal q, so that p is always a proper
density. ``tilted=False`` is the paper's own exp(-E(x_i)) / Z, which is proper only over the range that the
normaliser looks at, because the energy is clipped from above.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, partial
from typing import Literal, get_args

import torch
from torch import Tensor

from mac_policy.common.checks import check_choice, check_positive, is_number
from mac_policy.core.heads.continuous import GaussianMixture, MixtureConditional, RealHead
from mac_policy.core.heads.energy_network import EnergyNetwork
from mac_policy.core.heads.head import at_least_float32, draw_index, take
from mac_policy.core.networks.network import check_sizes

Normaliser = Literal["importance", "grid"]
GRID_REACH = 6.0


class EnergyConditional:
    """exp(-E) q / Z with Z = sum_j w_j exp(-E(s_j)) over weighted points s_j that stand for q.

    ``draw_points`` gives, when they are first needed, points (..., S) and the logs of their shares of q
    (..., S), both without gradient; they are then kept, so that log_prob is one function. ``sample`` draws
    ``num_samples`` proposals and resamples one of them by its importance weight; ``mean`` is the weighted
    mean of the points; ``mode`` the best of the points and the component means. At temperature T the
    resampling aims at p^(1/T). Resampling is exact only for many samples or an energy that changes q little,
    which is what training makes of it.
    """

    def __init__(
        self,
        proposal: MixtureConditional,
        energy: Callable[[Tensor], Tensor],
        draw_points: Callable[[], tuple[Tensor, Tensor]],
        num_samples: int,
        tilted: bool,
    ) -> None:
        self.proposal = proposal
        self.energy = energy  # (..., S) values to (..., S) energies
        self.draw_points = draw_points
        self.num_samples = num_samples
        self.tilted = tilted

    @property
    def batch_shape(self) -> torch.Size:
        return self.proposal.batch_shape

    def _log_q(self, x: Tensor) -> Tensor:
        return self.proposal.expand_last(x.shape[-1]).log_prob(x)

    def _log_density(self, x: Tensor) -> Tensor:
        """``(..., S)`` values to their log densities before normalising."""
        return self._log_q(x) - self.energy(x) if self.tilted else -self.energy(x)

    @cached_property
    def _nodes(self) -> tuple[Tensor, Tensor]:
        return self.draw_points()

    @property
    def points(self) -> Tensor:
        return self._nodes[0]

    @cached_property
    def _log_weights(self) -> Tensor:
        """``(..., S)`` logs of w_j times density over proposal at the points."""
        log_ratio = -self.energy(self.points)
        if not self.tilted:
            log_ratio = log_ratio - self._log_q(self.points).detach()
        return log_ratio + self._nodes[1]

    @property
    def log_normaliser(self) -> Tensor:
        return self._log_weights.logsumexp(-1)

    def log_prob(self, x: Tensor) -> Tensor:
        return self._log_density(at_least_float32(x)[..., None])[..., 0] - self.log_normaliser

    def log_prob_grid(self, points: Tensor) -> Tensor:
        x = points.to(self.proposal.means.dtype).expand(*self.batch_shape, len(points))
        return self._log_density(x) - self.log_normaliser[..., None]

    def sample(self, temperature: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
        check_positive("temperature", temperature)
        # A cold proposal would miss the peaks of p that are none of q; a hot p needs a hot proposal.
        proposal = self.proposal.tempered(max(temperature, 1.0)).expand_last(self.num_samples)
        x = proposal.draw(generator)
        log_weights = self._log_density(x) / temperature - proposal.log_prob(x)
        return take(x, draw_index(log_weights, generator))

    @property
    def mode(self) -> Tensor:
        candidates = torch.cat([self.points, self.proposal.means], -1)
        return take(candidates, self._log_density(candidates).argmax(-1))

    @property
    def mean(self) -> Tensor:
        return (self._log_weights.softmax(-1) * self.points).sum(-1)


class EnergyTilted(RealHead):
    """Mixture proposal and latent vector from the set network, energy from a small network of the head's own.

    ``num_params`` = 3 * num_components + latent_dim. The energy network reads x_i, the latent vector, an
    embedding of the variable's index and the proposal's parameters (without passing a gradient to them), so
    ``forward`` must know which variables it is given: 0..N-1 along the last axis unless ``variables`` says.

    Training loss -(log q + energy_weight * log p) + regulariser * (log p - log q)^2. Gradients: log q trains
    the proposal by maximum likelihood; log p and the regulariser train the energy network and, through the
    latent vector, the set network; there q and the importance samples count as constants.
    ``energy_weight`` = 0 is ACE's warm-up, in which only the proposal learns.

    ``normaliser='importance'`` estimates Z as the mean of S samples of the proposal, ``num_samples`` while
    training and ``num_eval_samples`` in eval mode. By Jensen's inequality E[log Z^] < log Z, so log p comes out
    too high on average, by about Var(exp(-E)) / (2 S E[exp(-E)]^2): report likelihoods with ``'grid'``, which
    takes ``grid_size`` points for each component: deterministic, slower, and p integrates to one to about 1e-3.

        head = EnergyTilted(8, num_components=10)
        head.loss(network_output, x, generator)  # (B, 8)
    """

    def __init__(
        self,
        num_variables: int,
        num_components: int = 10,
        min_log_std: float | None = None,
        latent_dim: int = 64,
        hidden: int = 128,
        num_blocks: int = 4,
        num_samples: int = 20,
        num_eval_samples: int = 100,
        energy_clip: float = 30.0,
        regulariser: float = 0.0,
        normaliser: Normaliser = "importance",
        grid_size: int = 128,
        tilted: bool = True,
    ) -> None:
        super().__init__()
        check_sizes(num_variables=num_variables, latent_dim=latent_dim, hidden=hidden, num_blocks=num_blocks)
        check_sizes(num_samples=num_samples, num_eval_samples=num_eval_samples, grid_size=grid_size)
        check_positive("energy_clip", energy_clip)
        if not is_number(regulariser) or not regulariser >= 0:
            raise ValueError(f"regulariser must be a number of at least 0, got {regulariser!r}")
        check_choice("normaliser", normaliser, get_args(Normaliser))
        self.mixture = GaussianMixture(num_components, min_log_std)
        self.num_variables = num_variables
        self.latent_dim = latent_dim
        self.num_params = self.mixture.num_params + latent_dim
        self.energy = EnergyNetwork(num_variables, self.num_params, hidden, num_blocks, energy_clip)
        self.num_samples = num_samples
        self.num_eval_samples = num_eval_samples
        self.regulariser = regulariser
        self.normaliser = normaliser
        self.grid_size = grid_size
        self.tilted = tilted
        self.energy_weight = 1.0

    def forward(
        self, params: Tensor, variables: Tensor | None = None, generator: torch.Generator | None = None
    ) -> EnergyConditional:
        params = self._read(params)
        proposal = self.mixture(params[..., self.latent_dim :])
        return self._conditional(params, proposal, variables, generator)

    def loss(
        self,
        params: Tensor,
        x: Tensor,
        generator: torch.Generator | None = None,
        variables: Tensor | None = None,
    ) -> Tensor:
        params = self._read(params)
        proposal = self.mixture(params[..., self.latent_dim :])
        log_q = proposal.log_prob(x)
        log_p = self._conditional(params, detached(proposal), variables, generator).log_prob(x)
        distance = (log_p - log_q.detach()).square()
        return -(log_q + self.energy_weight * log_p) + self.regulariser * distance

    def _conditional(
        self,
        params: Tensor,
        proposal: MixtureConditional,
        variables: Tensor | None,
        generator: torch.Generator | None,
    ) -> EnergyConditional:
        inputs = torch.cat([params[..., : self.latent_dim], params[..., self.latent_dim :].detach()], -1)
        energy = self.energy(inputs, self._variables(params, variables))
        samples = self.num_samples if self.training else self.num_eval_samples
        draw_points = partial(self._points, detached(proposal), samples, generator)
        return EnergyConditional(proposal, energy, draw_points, samples, self.tilted)

    def _points(
        self, proposal: MixtureConditional, samples: int, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        if self.normaliser == "importance":
            points = proposal.expand_last(samples).draw(generator)
            return points, torch.full_like(points, -math.log(samples))
        # The integral over a mixture is the weighted sum of those over its components: a grid for each.
        z = torch.linspace(-GRID_REACH, GRID_REACH, self.grid_size, dtype=proposal.means.dtype)
        z = z.to(proposal.means.device)
        points = proposal.means[..., None] + proposal.log_stds.exp()[..., None] * z  # (..., K, G)
        log_node_weights = proposal.log_weights[..., None] + (-0.5 * z.square()).log_softmax(-1)
        return points.flatten(-2), log_node_weights.flatten(-2)

    def _variables(self, params: Tensor, variables: Tensor | None) -> Tensor:
        shape = params.shape[:-1]
        if variables is None:
            if not shape or shape[-1] != self.num_variables:
                raise ValueError(
                    f"params have shape {tuple(params.shape)}: say which variables these are (`variables`) "
                    f"unless the last axis but one holds all {self.num_variables}"
                )
            variables = torch.arange(self.num_variables, device=params.device)
        return variables.expand(shape)


def detached(mixture: MixtureConditional) -> MixtureConditional:
    return MixtureConditional(mixture.log_weights.detach(), mixture.means.detach(), mixture.log_stds.detach())
