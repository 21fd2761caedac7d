"""The targets of each step of whole paths, for path networks."""

from __future__ import annotations

import torch
from torch import Tensor


class Steps:
    """The targets of each step, of rows sorted so that those with the most steps come first."""

    def __init__(self, ranks: Tensor) -> None:
        none = ranks.shape[1]
        asked = (ranks >= 0) & (ranks < none)
        length = ranks.masked_fill(~asked, -1).amax(1) + 1
        self.number = int(length.max()) if len(length) else 0
        self.rows = length.argsort(descending=True, stable=True)  # (B,) the row at each place
        ranks, asked, length = ranks[self.rows], asked[self.rows], length[self.rows]
        self._variable = torch.cat([ranks.argsort(dim=1, stable=True), torch.full_like(ranks[:, :1], none)], 1)
        self._count = ranks.new_zeros(len(ranks), self.number + 1)
        self._count.scatter_add_(1, ranks.clamp(0, self.number), asked.long())
        self._start = (ranks < 0).sum(1, keepdim=True) + self._count.cumsum(1) - self._count
        self._active = (torch.arange(self.number, device=ranks.device)[:, None] < length).sum(1).tolist()
        self._widest = self._count[:, : self.number].amax(0).tolist() if len(ranks) else []
        self.columns = sum(self._widest)

    def targets(self, step: int) -> Tensor:
        """(b, m) long: the targets of each of the first b rows, padded with N."""
        active = self._active[step]
        place = torch.arange(self._widest[step], device=self._start.device)
        asked = place < self._count[:active, step, None]
        last = self._variable.shape[1] - 1
        return self._variable[:active].gather(1, (self._start[:active, step, None] + place).masked_fill(~asked, last))
