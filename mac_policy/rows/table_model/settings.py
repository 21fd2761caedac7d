"""The settings of a model of a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

from mac_policy.common.checks import check_range
from mac_policy.common.settings import Count, NonNegative, Positive, Settings, choice
from mac_policy.core import AnyOrderModel, Factorization, MaskTuned, UniformCardinality, UniformOrder
from mac_policy.core.networks import MLP
from mac_policy.rows.columns import Columns
from mac_policy.training.settings import TrainSettings

FACTORIZATIONS: dict[str, Callable[[int], Factorization]] = {
    "any": lambda n: MaskTuned(UniformCardinality(n), query="both"),
    "uniform": UniformOrder,
    "marginal": lambda n: MaskTuned(UniformCardinality(n)),
}
BETWEEN_VALIDATIONS = 50  # steps
MIN_LOG_STD = -4.0  # 0.02 standard deviations of a column: bounds the density of rounded values


@dataclass(frozen=True)
class TableSettings(Settings):
    """The options of a `TableModel`.

    factorization: which queries are trained. 'any': any variables given any others, answered along one canonical path;
        'uniform': the same along random orders, whose likelihoods are averages over orders; 'marginal': any variables
        given nothing, for joint and marginal densities alone (other queries warn)
    width, depth, dropout: of the network; num_components: Gaussians in the mixture of a column of numbers
    steps, batch_size, learning_rate: of the training; noise: on training values, in standard deviations
    validation: share of the rows held out to choose the best weights; patience: steps without a better validation loss
        before the training stops (0 = never)
    device: of the training, such as 'cpu' or 'cuda', or 'auto'
    """

    prefix: ClassVar[str] = ""

    factorization: Annotated[str, choice(FACTORIZATIONS)] = "any"
    width: Count = 128
    depth: Count = 3
    num_components: Count = 10
    dropout: Annotated[float, partial(check_range, low=0, high=0.99)] = 0.0
    steps: Count = 2000
    batch_size: Count = 256
    learning_rate: Positive = 2e-3
    noise: NonNegative = 0.01
    validation: Annotated[float, partial(check_range, low=0, high=0.9)] = 0.1
    patience: Annotated[int, partial(check_range, low=0)] = 500
    device: str = "cpu"

    def training(self) -> TrainSettings:
        """The settings of the training loop."""
        return TrainSettings(
            steps=self.steps,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            validation=self.validation,
            validations=max(1, self.steps // BETWEEN_VALIDATIONS),
            patience=-(-self.patience // BETWEEN_VALIDATIONS),
            weights="best" if self.validation else "last",
            ema=0.99,
            precision="fp32",
            save_seconds=1e9,
            accelerator=self.device,
        )

    def make(self, columns: Columns) -> tuple[AnyOrderModel, Factorization]:
        """An untrained model of these columns, whose first weights come from torch's global generator; and the law of
        its paths."""
        head = columns.head(self.num_components, MIN_LOG_STD)
        n = len(columns.variables)
        network = MLP(
            num_variables=n,
            num_features=head.num_features,
            num_params=head.num_params,
            width=self.width,
            depth=self.depth,
            residual=True,
            dropout=self.dropout,
        )
        return AnyOrderModel(network, head), FACTORIZATIONS[self.factorization](n)
