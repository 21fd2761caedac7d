"""A question to an any-order model, and the portions in which it is answered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Question:
    """Which variables of each row are queried, which are given, and their values; x is zero where it is unknown."""

    x: Tensor  # (B, N)
    query: Tensor  # (B, N)
    given: Tensor  # (B, N)
    encoded: Tensor | None  # (B, H) the context, read once
    mode: Tensor | None  # (B,)

    def rows(self, rows: Tensor) -> Question:
        encoded = None if self.encoded is None else self.encoded[rows]
        mode = None if self.mode is None else self.mode[rows]
        return Question(self.x[rows], self.query[rows], self.given[rows], encoded, mode)

    def repeat(self, times: int) -> Question:
        return self if times == 1 else self.rows(torch.arange(len(self.x), device=self.x.device).repeat(times))


def portions(ranks: Tensor, query: Tensor, rows_per_pass: int) -> Iterator[tuple[Tensor, Tensor]]:
    """All (row, step) pairs that have something to answer, in portions of at most rows_per_pass."""
    num_steps = ranks.masked_fill(~query, -1).amax(1) + 1  # (B,): ranks have no gaps
    steps = torch.arange(int(num_steps.max()) if len(num_steps) else 0, device=ranks.device)
    rows, step = (steps < num_steps[:, None]).nonzero(as_tuple=True)
    return zip(rows.split(rows_per_pass), step.split(rows_per_pass), strict=True) if len(rows) else iter(())


def in_fewer_steps(ranks: Tensor, query: Tensor, steps: int) -> Tensor:
    """Ranks 0..q-1 of each row spread evenly over at most `steps` steps."""
    num_steps = ranks.masked_fill(~query, -1).amax(1, keepdim=True) + 1
    merged = ranks * steps // num_steps.clamp(min=1)
    return torch.where(query & (num_steps > steps), merged, ranks)
