"""The dimensions that the Imputer's networks and its linear part read: numbers, and one for each class."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from mac_policy.common.folders import Checked
from mac_policy.core.heads import Head
from mac_policy.rows.columns.caps import believable, caps

BINS = 10
MOST_BINNED = 40  # numbers of a table whose networks read bins, at most: beyond, bins would make up most of a network
NARROW = 1e-3  # standard deviations: a bin between equal quantiles is a step


class Encoding(Checked, nn.Module):
    """Standardised dimensions (..., D) of encoded values: a number is one dimension, a category one for each class.

    Numbers are capped, so that a single wrong cell moves what is imputed from it by a bounded amount; one that
    is no `believable` number is not read at all. low, high (N,): the caps in encoded units; least, most (N,): the ends
    of what is read; owner (D,): the variable of each dimension; knots (C, BINS + 1): quantiles of numbers.
    """

    low: Tensor
    high: Tensor
    least: Tensor
    most: Tensor
    owner: Tensor
    places: Tensor
    center: Tensor
    scale: Tensor
    is_number: Tensor
    knots: Tensor
    binned: Tensor

    def __init__(self, rows: Tensor, classes: Sequence[int], head: Head) -> None:
        """rows (R, N): encoded values, NaN = missing; classes: their number for each variable, 0 of a number."""
        super().__init__()
        self.classes, self.head = list(classes), head
        sizes = torch.tensor([max(size, 1) for size in classes])
        slots = torch.cat([torch.arange(int(size)) for size in sizes])
        self.register_buffer("owner", torch.arange(len(sizes)).repeat_interleave(sizes))
        self.register_buffer("places", self.owner * head.num_features + slots)
        self.register_buffer("is_number", torch.tensor([size == 0 for size in classes])[self.owner])
        columns = [column[~column.isnan()].double().numpy() for column in rows.T]
        ends = [(*caps(column), *believable(column)) for column in columns]
        low, high, least, most = torch.tensor(ends, dtype=torch.float64).T.to(rows)
        is_number = torch.tensor([size == 0 for size in classes])
        self.register_buffer("low", torch.where(is_number, low, -torch.inf))
        self.register_buffer("high", torch.where(is_number, high, torch.inf))
        self.register_buffer("least", torch.where(is_number, least, -torch.inf))
        self.register_buffer("most", torch.where(is_number, most, torch.inf))
        rows = self.believed(rows)
        observed = (~rows.isnan())[:, self.owner]
        raw = torch.where(observed, self._raw(torch.where(rows.isnan(), 0.0, rows)), 0.0).double()
        count = observed.sum(0).clamp_min(1)
        center = raw.sum(0) / count
        spread = (torch.where(observed, raw - center, 0.0).square().sum(0) / count).sqrt()
        self.register_buffer("center", center)
        self.register_buffer("scale", torch.where(spread > 0, spread, 1.0))
        binned = self.is_number & bool(int(is_number.sum()) <= MOST_BINNED)
        values = self._standard(torch.where(observed, raw, torch.nan))[:, binned]
        levels = torch.linspace(0, 1, BINS + 1, dtype=values.dtype)
        knots = values.nanquantile(levels, 0).T.contiguous() if bool(binned.any()) else values.new_zeros(0, BINS + 1)
        self.register_buffer("knots", knots)
        self.register_buffer("binned", binned.nonzero()[:, 0], persistent=False)

    def check(self) -> None:
        if not bool((self.scale > 0).all()):
            raise ValueError("the scale of each dimension of the encoding must be above 0")
        if bool((self.low > self.high).any() or (self.least > self.most).any()):
            raise ValueError("the ends of what is read must be in order: low and high, least and most")

    @property
    def dims(self) -> int:
        return len(self.owner)

    @property
    def bin_dims(self) -> int:
        return len(self.binned) * BINS

    def bins(self, x: Tensor, seen: Tensor) -> Tensor:
        """Where each number (..., D) lies among its quantiles, (..., C * BINS): 1 for a bin below it, 0 for a bin above
        it, the share that it has passed of its own. 0 where it is not seen."""
        begin, width = (part.to(x.dtype) for part in (self.knots[:, :-1], self.knots.diff(dim=1).clamp_min(NARROW)))
        passed = ((x[..., self.binned, None] - begin) / width).clamp(0, 1)
        return torch.where(seen[..., self.binned, None], passed, 0.0).flatten(-2)

    def is_believed(self, values: Tensor, variables: Tensor | None = None) -> Tensor:
        """(...) bool: whether values, of all variables (..., N) or of these (...), are read."""
        which = slice(None) if variables is None else variables
        return (values >= self.least.to(values)[which]) & (values <= self.most.to(values)[which])

    def believed(self, rows: Tensor) -> Tensor:
        """Values (R, N) with NaN for those that are not believed."""
        return rows.masked_fill(~self.is_believed(rows), torch.nan)

    def capped(self, rows: Tensor) -> Tensor:
        """Values (R, N) with numbers capped; NaN stays."""
        return torch.maximum(torch.minimum(rows, self.high.to(rows.dtype)), self.low.to(rows.dtype))

    def of_rows(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Dimensions (R, D), 0 where missing, and the mask of observed ones, of rows with NaN = missing."""
        rows = self.believed(rows)
        observed = (~rows.isnan())[:, self.owner]
        return torch.where(observed, self._standard(self._raw(torch.where(rows.isnan(), 0.0, rows))), 0.0), observed

    def forward(self, features: Tensor, evidence: Tensor) -> tuple[Tensor, Tensor]:
        """Dimensions and evidence (..., D) of what a network is given: features (..., N, F), evidence (..., N)."""
        raw = features.flatten(-2)[..., self.places]
        capped = torch.maximum(torch.minimum(raw, self.high[self.owner].to(raw)), self.low[self.owner].to(raw))
        seen = (evidence & self.is_believed(features[..., 0]))[..., self.owner]
        return torch.where(seen, self._standard(capped), 0.0), seen

    def _raw(self, rows: Tensor) -> Tensor:
        return self.head.features(self.capped(rows)).flatten(1)[:, self.places]

    def standard(self, shown: Tensor, dims: Tensor) -> Tensor:
        """The dimensions `dims` (...) of what a head shows of their values (...)."""
        owner = self.owner[dims]
        capped = torch.maximum(torch.minimum(shown, self.high[owner].to(shown)), self.low[owner].to(shown))
        return (capped - self.center.to(shown)[dims]) / self.scale.to(shown)[dims]

    def _standard(self, raw: Tensor) -> Tensor:
        return (raw - self.center.to(raw.dtype)) / self.scale.to(raw.dtype)
