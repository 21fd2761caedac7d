"""The base class of the baselines: checks of its arguments, and samples that keep the given values."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mac_policy.common.checks import check_count, check_positive
from mac_policy.core.checks import check_disjoint, check_mask, check_values
from mac_policy.core.heads import EnergyTilted, Head
from mac_policy.rows.model import RowModel


class Baseline(RowModel):
    """A model of rows x (B, N) that is not factorised into univariate conditionals along a path.

    shape: of one row, (N,) or (channels, height, width); levels: values are 0..levels-1, None for real numbers; head:
    a univariate density of the values.
    """

    rows_per_pass = 1024
    most_steps: int | None = None
    """The largest number of steps in `sample`; None if a row is drawn in one step, whatever is requested."""

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
        """Whole rows drawn from p(. | x_given), (S, B, N). x is zero where a variable is not given."""

    @torch.no_grad()
    def sample(
        self,
        x: Tensor,
        *,
        given: Tensor,
        num_samples: int = 1,
        steps: int | None = None,
        temperature: float = 1.0,
        missing: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Draw whole rows and keep the values of x where it is given or missing.

        Dropping the drawn values of missing variables does not change the law of the others.
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

    def _default_network(self) -> dict[str, Any]:
        return {"kind": "unet" if len(self.shape) == 3 else "mlp"}

    @property
    def _float(self) -> torch.dtype:
        """The precision of results: that of the parameters, float32 at least."""
        return torch.promote_types(next(self.parameters()).dtype, torch.float32)

    def _known(self, x: Tensor, known: Tensor) -> Tensor:
        """x with zeros outside the mask `known`; ValueError for an invalid value within it."""
        self.head.check(x, known)
        return torch.where(known, x, torch.zeros_like(x))

    def _question(self, x: Tensor, query: Tensor, given: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x, query and given, checked. x is zero where a variable is neither queried nor given."""
        check_values(x, self.num_variables)
        query = check_mask("query", query, len(x), self.num_variables)
        given = check_mask("given", given, len(x), self.num_variables)
        check_disjoint(query=query, given=given)
        return self._known(x, query | given), query, given
