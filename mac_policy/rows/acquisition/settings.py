"""The settings of an acquisition experiment."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any

from mac_policy.common.settings import Count, Natural, Settings, choice

ORDERS = {
    "model": "for each row, the most informative variable next, by the model",
    "shared": "one order for all rows: the most informative variable next, in the mean of training rows, by the model",
    "fixed": "the columns in the order of the table",
    "random": "a random order for each row",
}


@dataclass(frozen=True)
class AcquisitionSettings(Settings):
    """orders: orders of acquisition, out of `ORDERS`, with 'random' as the reference
    num_samples: draws that estimate a reward; baseline_samples: the same for a model with a latent vector
    importance_samples: latent vectors that such a reward is based on (errors use the model's own number)
    prediction_samples: draws whose mean predicts the target
    random_orders: of each row, averaged; rows: test rows looked at (0: all); shared_rows: training rows whose mean
        reward makes the shared order
    """

    orders: tuple[Annotated[str, choice(ORDERS, "order")], ...] = tuple(ORDERS)
    num_samples: Count = 256
    baseline_samples: Count = 256
    importance_samples: Count = 1000
    prediction_samples: Count = 100
    random_orders: Count = 4
    rows: Natural = 0
    shared_rows: Count = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        if "random" not in self.orders or len(set(self.orders)) < len(self.orders):
            raise ValueError(f"orders must be different ones, 'random' among them, got {list(self.orders)}")

    def of(self, is_latent: bool) -> dict[str, Any]:
        """The settings that the numbers of a model depend on, with a latent vector or without."""
        without = ("num_samples",) if is_latent else ("baseline_samples", "importance_samples")
        return {name: value for name, value in asdict(self).items() if name not in without}
