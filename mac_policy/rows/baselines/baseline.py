"""What every baseline has: rows of a shape, a head for their values, and fills that leave what is seen as it is."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from mac_policy.common.checks import check_count, check_positive
from mac_policy.core.checks import check_disjoint, check_mask, check_values
from mac_policy.core.heads import EnergyTilted, Head


class Baseline(nn.Module, ABC):
    """A model of rows x (B, N), answered by other means than a path of univariate conditionals.

    shape: of one row, (N,) or (channels, height, width); levels: values are 0..levels-1, None for real numbers; head:
    a univariate density for the values. Masks are bool (B, N) or one row (N,). A missing value is in neither mask; it
    may be anything, NaN included.
    """

    densities: ClassVar[tuple[str, ...]]
    """The names of what `log_prob` gives; 'model' is the one to compare."""
    any_query: ClassVar[bool]
    """Whether `log_prob` answers every query; if not, whole rows given nothing are all it answers."""

    rows_per_pass = 1024
    """Rows that a network reads at once where no gradient is asked for."""
    modes: tuple[str, ...] = ()
    """Of activation: there are none."""

    most_steps: int | None = None
    """The most steps that `sample` can take; None where it has none: a row is drawn at once, whatever is asked."""

    def __init__(self, shape: Sequence[int], levels: int | None, head: Head) -> None:
        super().__init__()
        self.shape = tuple(check_count("a size of the shape", size) for size in shape)
        self.num_variables = math.prod(self.shape)
        if isinstance(head, EnergyTilted):
            raise ValueError(f"{type(self).__name__} needs a head with a density in closed form, EnergyTilted has none")
        if head.discrete != (levels is not None):
            values = "real numbers" if levels is None else f"values 0..{levels - 1}"
            raise ValueError(f"the head {type(head).__name__} is not for {values}")
        self.head, self.levels = head, levels

    def in_mode(self, mode: str) -> Baseline:
        """Refused, as by every model that is not trained in modes."""
        raise ValueError(f"mode {mode!r}: this model is not trained in modes")

    @abstractmethod
    def draw(self, n: int, generator: torch.Generator) -> Any:
        """The random numbers of a training step on n rows: a tuple of tensors (n, ...) with `to(device)`."""

    @abstractmethod
    def forward(
        self,
        x: Tensor,
        draws: Any,
        generator: torch.Generator | None = None,
        energy_weight: float = 1.0,
        missing: Tensor | None = None,
    ) -> Tensor:
        """The mean loss of rows x (B, N), a scalar. missing: bool (B, N), values that are not there. `energy_weight` is
        for heads with an energy: there is none here."""

    @abstractmethod
    def log_prob(
        self,
        x: Tensor,
        query: Tensor,
        given: Tensor,
        *,
        generator: torch.Generator | None = None,
        orders: int = 1,
        steps: int | None = None,
        step_generator: torch.Generator | None = None,
    ) -> Mapping[str, Tensor]:
        """log p(x_query | x_given) in nats of every row (B,), by each of `densities`."""

    @abstractmethod
    def _completions(
        self,
        x: Tensor,
        given: Tensor,
        num_samples: int,
        steps: int | None,
        temperature: float,
        generator: torch.Generator | None,
    ) -> Tensor:
        """Whole rows drawn from p(. | x_given), (S, B, N). x is zero where it is not given."""

    @torch.no_grad()
    def sample(
        self,
        x: Tensor,
        given: Tensor,
        *,
        num_samples: int = 1,
        steps: int | None = None,
        temperature: float = 1.0,
        missing: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """x with all that is not given (nor missing) drawn; (B, N), or (num_samples, B, N) if > 1, as
        `AnyOrderModel.sample`. Whole rows are drawn and what is missing is dropped, which leaves the law of the rest.
        """
        check_count("num_samples", num_samples)
        check_positive("temperature", temperature)
        if steps is not None:
            check_count("steps", steps)
        check_values(x, self.num_variables)
        given = check_mask("given", given, len(x), self.num_variables)
        kept = given if missing is None else given | check_mask("missing", missing, len(x), self.num_variables)
        if not self.head.discrete and not x.is_floating_point():
            x = x.to(torch.get_default_dtype())
        drawn = self._completions(self._known(x, given), given, num_samples, steps, temperature, generator)
        filled = torch.where(kept, x, drawn.to(x.dtype))
        return filled[0] if num_samples == 1 else filled

    def impute(
        self, x: Tensor, seen: Tensor, *, num_samples: int = 1, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draws of all that is unseen, (B, num_samples, N); what is seen stays as it is, bit by bit."""
        filled = self.sample(x, seen, num_samples=num_samples, generator=generator)
        return filled[:, None] if num_samples == 1 else filled.transpose(0, 1)

    def _default_network(self) -> dict[str, Any]:
        return {"kind": "unet" if len(self.shape) == 3 else "mlp"}

    def _known(self, x: Tensor, known: Tensor) -> Tensor:
        """The values with zeros where they are not known; an error where a known one cannot be."""
        self.head.check(x, known)
        return torch.where(known, x, torch.zeros_like(x))

    def _question(self, x: Tensor, query: Tensor, given: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x, query and given, checked, x zero where it is in neither."""
        check_values(x, self.num_variables)
        query = check_mask("query", query, len(x), self.num_variables)
        given = check_mask("given", given, len(x), self.num_variables)
        check_disjoint(query=query, given=given)
        return self._known(x, query | given), query, given
