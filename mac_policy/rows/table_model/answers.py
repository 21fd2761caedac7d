"""What a model says about one column: distributions of numbers and of categories, in the units of the table."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mac_policy.common.checks import check_range
from mac_policy.core.heads.continuous import MixtureConditional
from mac_policy.core.heads.discrete import CategoricalConditional
from mac_policy.rows.columns import Column
from mac_policy.rows.columns.cells import cells_of

Floats: TypeAlias = NDArray[np.float64]


class NumberConditional:
    """p(column | what is known) of a column of numbers, for every row (R,): a mixture of Gaussians."""

    def __init__(self, column: Column, mixture: MixtureConditional) -> None:
        self.column, self.mixture = column, mixture

    @property
    def mean(self) -> Floats:
        """(R,)"""
        return self._numbers(self.mixture.mean)

    @property
    def std(self) -> Floats:
        """(R,) standard deviation."""
        return np.asarray(self.mixture.std.numpy() * self.column.scale)

    def quantile(self, level: float) -> Floats:
        """(R,) the value below which the variable lies with this probability."""
        return self._numbers(self.mixture.quantile(check_range("level", level, 0, 1)))

    def interval(self, coverage: float = 0.9) -> tuple[Floats, Floats]:
        """(R,) lower and upper end of the central interval with this probability."""
        tail = (1 - check_range("coverage", coverage, 0, 1)) / 2
        return self.quantile(tail), self.quantile(1 - tail)

    def log_prob(self, values: Any) -> Floats:
        """(R,) log-density of these values, in the units of the table; of whole numbers their log-probability."""
        encoded = _encoded(self.column, values, self.mixture.batch_shape)
        return np.asarray(self.mixture.log_prob(encoded).numpy() - self.column.log_unit)

    def _numbers(self, encoded: Tensor) -> Floats:
        return np.asarray(encoded.numpy() * self.column.scale + self.column.location)


class CategoryConditional:
    """p(column | what is known) of a categorical column, for every row (R,)."""

    def __init__(self, column: Column, conditional: CategoricalConditional) -> None:
        self.column, self.conditional = column, conditional

    @property
    def classes(self) -> tuple[Any, ...]:
        return self.column.classes

    @property
    def probabilities(self) -> Floats:
        """(R, K) the probability of each class."""
        return np.asarray(self.conditional.log_probs.exp().numpy())

    @property
    def mode(self) -> NDArray[Any]:
        """(R,) the most probable class; None where the row knows it."""
        found = self.column.decoded(self.conditional.mode.double().numpy())
        found[np.isnan(self.probabilities).any(-1)] = None
        return found

    def log_prob(self, values: Any) -> Floats:
        """(R,) log-probability of these classes."""
        encoded = _encoded(self.column, values, self.conditional.batch_shape)
        return np.asarray(self.conditional.log_prob(encoded).numpy())


def column_conditional(column: Column, conditional: Any) -> NumberConditional | CategoryConditional:
    """The conditional of a head as one of this column."""
    kind: Any = CategoryConditional if column.is_categorical else NumberConditional
    found: NumberConditional | CategoryConditional = kind(column, conditional)
    return found


def _encoded(column: Column, values: Any, shape: torch.Size) -> Tensor:
    array = np.atleast_1d(np.asarray(values, dtype=object if column.is_categorical else None))
    encoded = torch.from_numpy(column.encoded(cells_of(column.name, array)))
    if encoded.shape not in (shape, (1,)):
        raise ValueError(f"values must have shape {tuple(shape)}, one for each row, got {tuple(encoded.shape)}")
    return encoded.expand(shape)
