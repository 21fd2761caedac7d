"""The densities of one model: a head with an energy has a proposal with a density of its own."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from mac_policy.core import AnyOrderModel
from mac_policy.core.heads import EnergyTilted, Head
from mac_policy.core.heads.continuous import MixtureConditional


class ProposalOf(Head):
    """The mixture proposal of an energy head, as a head of its own."""

    discrete = False
    num_features = 1
    allowed = "a finite number"

    def __init__(self, head: EnergyTilted) -> None:
        super().__init__()
        self.mixture, self.latent_dim, self.num_params = head.mixture, head.latent_dim, head.num_params

    def features(self, x: Tensor, variables: Tensor | None = None) -> Tensor:
        return self.mixture.features(x)

    def valid(self, x: Tensor) -> Tensor:
        return self.mixture.valid(x)

    def forward(
        self, params: Tensor, variables: Tensor | None = None, generator: torch.Generator | None = None
    ) -> MixtureConditional:
        conditional: MixtureConditional = self.mixture(self._read(params)[..., self.latent_dim :])
        return conditional


def views(model: AnyOrderModel) -> dict[str, AnyOrderModel]:
    """The model with each density of its head: 'model', the head's own; for energies also 'proposal' and 'grid'.

    'grid' sums the normaliser over a grid, which has no bias, unlike importance samples.
    """
    if not isinstance(model.head, EnergyTilted):
        return {"model": model}
    grid = copy.copy(model.head)
    grid.normaliser = "grid"
    heads = {"model": model.head, "proposal": ProposalOf(model.head), "grid": grid}
    return {
        name: AnyOrderModel(model.network, head, rows_per_pass=model.rows_per_pass, validate=model.validate).train(
            model.training
        )
        for name, head in heads.items()
    }
