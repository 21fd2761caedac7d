"""The network policies use: a wide trunk reads the context once, a small query network each path step."""

from __future__ import annotations

from torch import Tensor, nn

from mac_policy.core.networks.mlp import FlatNetwork, hidden_layers
from mac_policy.core.networks.network import check_sizes, small_output


class TrunkQuery(FlatNetwork):
    """``encode(context)`` is the trunk; ``forward`` is only the query network.

    The trunk (``trunk_depth`` layers of ``trunk_width``) knows nothing of the evidence, so one reading serves
    a whole path and every sample of it. The query network (``query_depth`` layers of ``query_width``) reads
    [trunk features, seen values, evidence bits, step, mode]: filling 5 of 9 dimensions costs little more than
    one forward pass.

        network = TrunkQuery(num_variables=9, num_features=1, num_params=60, context_dim=30)
        encoded = network.encode(observation)  # (B, query_width), once
        network(features, evidence, encoded)  # (B, 9, 60), for each step
    """

    def __init__(
        self,
        *,
        num_variables: int,
        num_features: int,
        num_params: int,
        context_dim: int,
        num_modes: int = 0,
        trunk_width: int = 1024,
        trunk_depth: int = 4,
        query_width: int = 256,
        query_depth: int = 2,
        residual: bool = False,
        step_dim: int = 0,
        mode_dim: int = 16,
    ) -> None:
        super().__init__(
            num_variables=num_variables,
            num_features=num_features,
            num_params=num_params,
            context_dim=context_dim,
            num_modes=num_modes,
        )
        check_sizes(context_dim=context_dim, trunk_width=trunk_width, trunk_depth=trunk_depth)
        check_sizes(query_width=query_width, query_depth=query_depth)
        self.trunk = nn.Sequential(
            hidden_layers(context_dim, trunk_width, trunk_depth, residual), nn.Linear(trunk_width, query_width)
        )
        inputs = self._embed_conditions(step_dim, mode_dim) + query_width
        self.query = hidden_layers(inputs, query_width, query_depth, residual)
        self.output = nn.Linear(query_width, num_variables * num_params)
        small_output(self.output)

    def encode(self, context: Tensor | None) -> Tensor | None:
        self._check_context(context)
        encoded: Tensor = self.trunk(context)
        return encoded

    def hidden_of(self, features: Tensor, evidence: Tensor, encoded: Tensor | None, mode: Tensor | None) -> Tensor:
        hidden: Tensor = self.query(self._flat(features, evidence, encoded, mode))
        return hidden
