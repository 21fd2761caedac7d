"""The settings of a model of a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from mac_policy.common.checks import check_range
from mac_policy.common.settings import Count, Depth, NonNegative, Positive, Size, choice
from mac_policy.core import Factorization, MaskTuned, UniformCardinality, UniformOrder
from mac_policy.rows.imputer.training import DEVICES, ImputerSettings

FACTORIZATIONS: dict[str, Callable[[int], Factorization]] = {
    "any": lambda n: MaskTuned(UniformCardinality(n), query="both"),
    "uniform": UniformOrder,
    "marginal": lambda n: MaskTuned(UniformCardinality(n)),
}


@dataclass(frozen=True)
class TableSettings(ImputerSettings):
    """The options of a `TableModel`. Networks and training are those of the Imputer: an ensemble that corrects a joint
    Gaussian of the columns.

    factorization: which queries are trained. 'any': any variables given any others, answered along one canonical path;
        'uniform': the same along random orders, whose likelihoods are averages over orders; 'marginal': any variables
        given nothing, for joint and marginal densities alone (other queries warn)
    members: networks of the ensemble, each with held-out rows of its own
    steps, patience: most steps of the training, and steps without a better validation loss after which it stops
    batch_size, learning_rate: rows of a step, of all members together; of the optimiser
    width, depth, dropout: of a network; num_components: Gaussians of a network in the mixture of a column of numbers
    noise: on the values that a network reads in training, in standard deviations of a column
    validation: share of the rows held out to choose the best weights
    device: of the training, such as 'cpu' or 'cuda', or 'auto'
    """

    factorization: Annotated[str, choice(FACTORIZATIONS)] = "any"
    members: Depth = 5
    steps: Count = 2000
    patience: Count = 300
    batch_size: Count = 320
    learning_rate: Positive = 5e-3
    width: Size = 64
    depth: Depth = 2
    num_components: Size = 5
    dropout: Annotated[float, partial(check_range, low=0, high=0.99)] = 0.1
    noise: NonNegative = 0.02
    validation: Annotated[float, partial(check_range, low=0, high=0.9)] = 0.2
    device: Annotated[str, choice(DEVICES)] = "cpu"

    def law(self, num_variables: int) -> Factorization:
        return FACTORIZATIONS[self.factorization](num_variables)
