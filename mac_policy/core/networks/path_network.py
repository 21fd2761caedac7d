"""What every path network has: all conditionals of a path in one pass, or one after another from what it has read."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from mac_policy.core.networks.network import Network
from mac_policy.core.networks.path_attention import KeyValueCache


@dataclass
class PathState:
    """Where B rows stand on their paths: what they have read, and the last value, which is read with the next ask."""

    cache: KeyValueCache
    features: Tensor  # (B, F) of the last value
    variable: Tensor  # (B,) long, whose value it is, N for none
    encoded: Tensor | None
    mode: Tensor | None

    def select(self, rows: Tensor) -> None:
        """Keep these rows, in this order; a row may be there more than once."""
        self.cache.select(rows)
        self.features, self.variable = self.features[rows], self.variable[rows]
        self.encoded = None if self.encoded is None else self.encoded[rows]
        self.mode = None if self.mode is None else self.mode[rows]


class PathNetwork(Network):
    """Sees the variables in path order and gives the conditional of each from what precedes it.

    A path is a row of ranks: negative for given variables (in the order in which a path would query them), 0, 1, ...
    for queried variables, N for all others. No conditional depends on a value of its own rank or a later one.
    """

    kind = "path"
    given_in_order: bool = True
    """Whether the order of the given variables matters."""

    @abstractmethod
    def forward(
        self, features: Tensor, ranks: Tensor, encoded: Tensor | None = None, mode: Tensor | None = None
    ) -> Tensor:
        """``(B, N, F)`` features, ``(B, N)`` long ranks, ``encode(context)``, ``(B,)`` long mode to ``(B, N, P)``
        parameters, zero where nothing is queried."""

    @abstractmethod
    def begin(
        self, features: Tensor, ranks: Tensor, encoded: Tensor | None, mode: Tensor | None, room: int
    ) -> PathState:
        """Reads the given variables; at most `room` columns of targets follow."""

    @abstractmethod
    def ask(self, state: PathState, targets: Tensor) -> Tensor:
        """``(b, m)`` long, the next targets of the first b rows, N for none; to ``(b, m, P)`` parameters."""

    @abstractmethod
    def tell(self, state: PathState, targets: Tensor, features: Tensor) -> None:
        """Reads the values of the last targets, as ``(b, m, F)`` features."""

    def _check_path(self, features: Tensor, ranks: Tensor, encoded: Tensor | None, mode: Tensor | None) -> None:
        self._check_features(features)
        if ranks.shape != features.shape[:2] or ranks.dtype != torch.long:
            raise ValueError(
                f"ranks have shape {tuple(ranks.shape)} and dtype {ranks.dtype}: they must be "
                f"{tuple(features.shape[:2])} and torch.long"
            )
        self._check_conditions(len(features), encoded, mode)
