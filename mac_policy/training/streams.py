"""Random numbers as a function of (seed, purpose, step): nothing to save, nothing to lose when a run is killed."""

from __future__ import annotations

import hashlib
from functools import lru_cache

import torch
from torch import Tensor


def stream(seed: int, purpose: str, step: int = 0) -> torch.Generator:
    """A generator of its own for each seed, purpose and step.

    >>> torch.equal(torch.rand(2, generator=stream(0, "masks", 7)), torch.rand(2, generator=stream(0, "masks", 7)))
    True
    """
    digest = hashlib.blake2b(f"{seed}/{purpose}/{step}".encode(), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "little", signed=True))


class Shuffle:
    """Batches of row indices: every row once an epoch, in an order of its own each epoch; a batch may span epochs."""

    def __init__(self, rows: int, batch_size: int, seed: int) -> None:
        if rows < 1:
            raise ValueError("there is no row to train on")
        self.rows, self.batch_size, self.seed = rows, batch_size, seed
        self._epoch = lru_cache(maxsize=2)(self._permutation)

    def batch(self, step: int) -> Tensor:
        """(batch_size,) row indices of this step."""
        begin, end = step * self.batch_size, (step + 1) * self.batch_size
        parts = []
        for epoch in range(begin // self.rows, (end - 1) // self.rows + 1):
            offset = epoch * self.rows
            parts.append(self._epoch(epoch)[max(begin - offset, 0) : end - offset])
        return torch.cat(parts)

    def _permutation(self, epoch: int) -> Tensor:
        return torch.randperm(self.rows, generator=stream(self.seed, "epoch", epoch))
