"""MAC with a path network: the action's dimensions are tokens in path order, trained and scored in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mac_policy.common.checks import check_count
from mac_policy.core.heads import GaussianMixture
from mac_policy.core.networks import PathTransformer
from mac_policy.core.training_draws import TrainingQueries
from mac_policy.policies import decoding
from mac_policy.policies import quick_path as path_lean
from mac_policy.policies.mac import MAC, MACSettings
from mac_policy.policies.policy import Policy
from mac_policy.policies.settings import PolicySettings


@dataclass(frozen=True)
class MACPathSettings(MACSettings):
    """query_width, query_depth, query_heads: of the transformer whose tokens are the action's dimensions
    masks: queries to train for, conditional or both; masks_per_row: queries for each training row
    weights, reweighting: not for this policy, which trains on the edges that inference walks, and on no others
    """

    query_width: int = 64
    query_depth: int = 2
    query_heads: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("query_heads", self.query_heads)
        if self.masks == "marginal":
            raise ValueError(
                "masks='marginal' trains on queries with nothing given, and mac_path would not learn to read what an "
                "operator holds: use masks='conditional' or 'both'"
            )
        if self.weights != "parallel" or not self.reweighting:
            raise ValueError(
                "weights and reweighting correct the parallel training of unseen dims, which mac_path does not do: "
                f"leave them as they are, got weights={self.weights!r}, reweighting={self.reweighting!r}"
            )


class MACPath(MAC):
    """p(action dims left | action dims commanded, observation), every value read once."""

    kind: ClassVar[str] = "mac_path"
    settings_class: ClassVar[type[PolicySettings]] = MACPathSettings
    settings: MACPathSettings

    def _network(self, head: GaussianMixture) -> PathTransformer:
        s = self.settings
        return PathTransformer(
            num_variables=self.variables,
            num_features=head.num_features,
            num_params=head.num_params,
            context_dim=s.history * self.observation_dim,
            trunk_width=s.width,
            trunk_depth=s.depth,
            width=s.query_width,
            depth=s.query_depth,
            heads=s.query_heads,
        )

    def draw(self, n: int, generator: torch.Generator) -> dict[str, Tensor]:
        draws = Policy.draw(self, n, generator)
        rows = n * self.settings.masks_per_row
        queries = self.factorization.training_queries(rows, generator)
        ranks, weights = queries.ranks, queries.weights
        held = torch.ones(rows, 1)
        if self.alone is not None:
            own = self.alone.training_queries(rows, generator)
            held = (torch.rand((rows, 1), generator=generator) >= self.settings.alone).float()
            ranks = torch.where(held > 0, ranks, own.ranks)
            weights = torch.where(held > 0, weights, own.weights)
        found = {"ranks": ranks, "weights": weights}
        if self.settings.evidence_noise:
            scale = self.settings.evidence_noise * held * torch.rand((rows, 1), generator=generator)
            found["evidence_noise"] = scale * torch.randn((rows, self.variables), generator=generator)
        return draws | {name: value.unflatten(0, (n, -1)) for name, value in found.items()}  # (n, masks_per_row, N)

    def loss(self, context: Tensor, actions: Tensor, inside: Tensor, draws: dict[str, Tensor]) -> Tensor:
        k = self.settings.masks_per_row
        queries = TrainingQueries(draws["ranks"].flatten(0, 1), draws["weights"].flatten(0, 1))
        actions, inside = actions.repeat_interleave(k, 0), inside.repeat_interleave(k, 0)
        seen = None
        if "evidence_noise" in draws:
            seen = actions + draws["evidence_noise"].flatten(0, 1)
        missing = None if self.settings.horizon == 1 else inside == 0
        return self.model.loss(actions, queries, context, missing, evidence_values=seen, rows_per_context=k)

    def _levels(self, context: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        queries = self.factorization.training_queries(len(x), torch.Generator().manual_seed(0)).to(x.device)
        network = self.model.network
        params = network(self.head.features(x), queries.ranks, network.encode(context))
        return decoding.cdf(self.head(params), x), queries.query

    def _fill_row(
        self,
        context: Tensor,
        values: Tensor,
        given: Tensor,
        path: decoding.Path,
        how: decoding.How,
        noise: Tensor | None,
    ) -> NDArray[np.float32] | None:
        network = self.model.network
        if not path_lean.suits(network, self.head):
            return None
        encoded = network.encode(context)
        return (
            None
            if encoded is None
            else path_lean.fill_one(network, self.head, encoded, values, given, path, how, noise)
        )
