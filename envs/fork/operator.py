"""The fork's scripted expert: the demonstrator as an operator whose side no policy is told."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from envs.fork.environment import SIDES, demonstrator
from mac_policy.operators.dims import OperatorDims
from mac_policy.operators.operator import HoldingOperator, random_stream


class ForkExpert(HoldingOperator):
    """Commands the dims it holds so as to pass on a side drawn from each episode's seed.

    >>> operator = ForkExpert(OperatorDims.parse(1, action_dim=2), batch=8)
    """

    def __init__(self, dims: OperatorDims, batch: int = 1) -> None:
        super().__init__(dims, batch)
        self.sides = np.ones(batch)

    def begin(self, rows: NDArray[np.bool_], seeds: NDArray[np.int64]) -> None:
        super().begin(rows, seeds)
        for row in np.flatnonzero(rows):
            self.sides[row] = random_stream("fork expert", seeds[row]).choice(list(SIDES.values()))

    def values(self, observations: NDArray[np.float32]) -> NDArray[np.floating]:
        return np.stack([demonstrator(seen, side) for seen, side in zip(observations, self.sides, strict=True)])
