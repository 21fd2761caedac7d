"""A path network without a cache, for comparisons with the cache of a path network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from mac_policy.core import AnyOrderModel
from mac_policy.core.networks import PathNetwork
from mac_policy.core.networks.path_network import PathState


@dataclass
class Path:
    """What B rows have read so far; a `PathState` for `Reread`."""

    features: Tensor  # (B, N, F)
    ranks: Tensor  # (B, N), N for variables that have not been read
    encoded: Tensor | None
    mode: Tensor | None
    step: int = 0

    def select(self, rows: Tensor) -> None:
        self.features, self.ranks = self.features[rows], self.ranks[rows]
        self.encoded, self.mode = (None if part is None else part[rows] for part in (self.encoded, self.mode))


class Reread(PathNetwork):
    """The same conditionals as `network`, read from the beginning of the path at each step."""

    def __init__(self, network: PathNetwork) -> None:
        names = ("num_variables", "num_features", "num_params", "context_dim", "num_modes")
        super().__init__(**{name: getattr(network, name) for name in names})
        self.network, self.given_in_order = network, network.given_in_order

    def encode(self, context: Tensor | None) -> Tensor | None:
        return self.network.encode(context)

    def forward(self, *inputs: Any) -> Tensor:
        return cast(Tensor, self.network(*inputs))

    def begin(
        self, features: Tensor, ranks: Tensor, encoded: Tensor | None, mode: Tensor | None, room: int
    ) -> PathState:
        known = ranks.masked_fill(ranks >= 0, self.num_variables)
        return cast(PathState, Path(features, known, encoded, mode))

    def ask(self, state: PathState, targets: Tensor) -> Tensor:
        path, rows = cast(Path, state), torch.arange(len(targets), device=targets.device)
        item, column = (targets < self.num_variables).nonzero(as_tuple=True)
        path.ranks[item, targets[item, column]] = path.step
        conditions = (None if part is None else part[rows] for part in (path.encoded, path.mode))
        params = self.network(path.features[rows], path.ranks[rows], *conditions)
        return cast(Tensor, params[rows[:, None], targets.clamp(max=self.num_variables - 1)])

    def tell(self, state: PathState, targets: Tensor, features: Tensor) -> None:
        path = cast(Path, state)
        item, column = (targets < self.num_variables).nonzero(as_tuple=True)
        path.features[item, targets[item, column]] = features[item, column].to(path.features.dtype)
        path.step += 1


def without_cache(model: AnyOrderModel) -> AnyOrderModel:
    """The model of a path network with the same weights and no cache."""
    return AnyOrderModel(Reread(cast(PathNetwork, model.network)), model.head)
