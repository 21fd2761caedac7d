"""Uniform subsets and their prefixes, drawn for a whole batch at once. All tensors are on the CPU.

What touches every element is numpy's: it works on one thread, where torch would wake its pool for a fraction of a
millisecond of work and wait for it while training keeps the processors busy.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def uniform_subsets(sizes: Tensor, num_elements: int, generator: torch.Generator | None = None) -> Tensor:
    """A uniformly drawn subset of 0..num_elements-1 for each wanted size (n,), as bool (n, num_elements)."""
    return _smallest_keys(_random_keys(len(sizes), num_elements, generator), sizes)


def subsets_within(regions: Tensor, sizes: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """A uniformly drawn subset of each region (n, N) bool with the wanted size (n,), as bool (n, N)."""
    keys = _random_keys(len(regions), regions.shape[1], generator)
    return _smallest_keys(keys.masked_fill_(~regions, torch.iinfo(torch.int64).max), sizes)


def _random_keys(n: int, num_elements: int, generator: torch.Generator | None) -> Tensor:
    """Keys of 63 random bits: two equal ones at a threshold, which would make a subset one too large, have
    probability below 1e-15 a row."""
    return torch.empty((n, num_elements), dtype=torch.int64).random_(generator=generator)


def _smallest_keys(keys: Tensor, sizes: Tensor) -> Tensor:
    ranked = np.sort(keys.numpy(), axis=1)  # values only: several times the speed of torch.sort
    last = sizes.numpy()[:, None] - 1
    threshold = np.where(last < 0, -1, np.take_along_axis(ranked, np.maximum(last, 0), axis=1))
    return torch.from_numpy(keys.numpy() <= threshold)


def first_elements(subsets: Tensor, counts: Tensor) -> Tensor:
    """The `counts` (n,) first elements of each subset (n, N)."""
    members = subsets.numpy()
    return torch.from_numpy(members & (members.cumsum(1, dtype=np.int32) <= counts.numpy()[:, None]))


def draw_index(cumulative: Tensor, n: int, generator: torch.Generator | None = None) -> Tensor:
    """n indices from the law whose cumulative sums are `cumulative` (K,), by inversion. (n,) long"""
    u = torch.rand(n, generator=generator, dtype=torch.float64) * cumulative[-1]
    return torch.searchsorted(cumulative, u, right=True).clamp(max=len(cumulative) - 1)


def draw_below(limits: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """One uniform whole number in 0..limit-1 for each limit (n,)."""
    u = torch.rand(len(limits), generator=generator, dtype=torch.float64)
    return (u * limits).long().minimum(limits - 1)


def draw_linear(offset: Tensor, limits: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """One j in 0..limit-1 with probability proportional to offset + j, for each row; exact inversion.

    The cumulative weight before j is offset*j + j(j-1)/2, a quadratic whose root gives j.
    """
    a, m = offset.double(), limits.double()
    v = torch.rand(len(limits), generator=generator, dtype=torch.float64) * (a * m + m * (m - 1) / 2)
    j = ((0.5 - a) + ((a - 0.5) ** 2 + 2 * v).sqrt()).floor()
    j = torch.where(a * j + j * (j - 1) / 2 > v, j - 1, j)  # the root may round across a whole number
    j = torch.where(a * (j + 1) + j * (j + 1) / 2 <= v, j + 1, j)
    return j.long().clamp(min=0).minimum(limits - 1)
