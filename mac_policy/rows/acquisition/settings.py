"""The settings of an acquisition experiment."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from mac_policy.common.checks import check_choice, check_count

ORDERS = {
    "model": "for each row, the most informative variable next, by the model",
    "shared": "one order for all rows: the most informative variable next, in the mean of training rows, by the model",
    "fixed": "the columns in the order of the table",
    "random": "a random order for each row",
}


@dataclass(frozen=True)
class AcquisitionSettings:
    """orders: orders of acquisition, out of `ORDERS`, with 'random' as the reference
    num_samples: draws that estimate a reward; baseline_samples: the same for a model with a latent vector
    importance_samples: latent vectors that such a reward is based on (errors use the model's own number)
    prediction_samples: draws whose mean predicts the target
    random_orders: of each row, averaged; rows: test rows looked at (0: all); shared_rows: training rows whose mean
        reward makes the shared order
    """

    orders: tuple[str, ...] = tuple(ORDERS)
    num_samples: int = 256
    baseline_samples: int = 256
    importance_samples: int = 1000
    prediction_samples: int = 100
    random_orders: int = 4
    rows: int = 0
    shared_rows: int = 64

    def __post_init__(self) -> None:
        for name in self.orders:
            check_choice("order", name, ORDERS)
        if "random" not in self.orders or len(set(self.orders)) < len(self.orders):
            raise ValueError(f"orders must be different ones, 'random' among them, got {list(self.orders)}")
        for name in ("num_samples", "baseline_samples", "importance_samples", "prediction_samples", "random_orders"):
            check_count(name, getattr(self, name))
        check_count("shared_rows", self.shared_rows)
        check_count("rows", self.rows, 0)

    def of(self, is_latent: bool) -> dict[str, Any]:
        """The settings that the numbers of a model depend on, with a latent vector or without."""
        without = ("num_samples",) if is_latent else ("baseline_samples", "importance_samples")
        return {name: value for name, value in asdict(self).items() if name not in without}
