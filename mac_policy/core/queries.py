"""Queries with their whole paths: what a network trains on that answers a path in one pass."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class TrainingQueries(NamedTuple):
    """What one training step asks of a path network; the loss is - sum_i weights_i log p(x_i | what precedes i).

    ranks: as `Factorization.ranks`, but the given variables are ordered too: -g, ..., -1 for g of them.
    """

    ranks: Tensor  # (n, N) long
    weights: Tensor  # (n, N) float, >= 0, zero on what is not asked
    mode: Tensor | None = None  # (n,) long, for networks that are told the activation mode

    @property
    def given(self) -> Tensor:
        return self.ranks < 0

    @property
    def query(self) -> Tensor:
        return (self.ranks >= 0) & (self.ranks < self.ranks.shape[1])

    def to(self, device: torch.device | str) -> TrainingQueries:
        mode = None if self.mode is None else self.mode.to(device)
        return TrainingQueries(self.ranks.to(device), self.weights.to(device), mode)


def mean_over_path(query: Tensor) -> Tensor:
    """1 / t for each of the t variables asked for. (n, N)"""
    return query / query.sum(1, keepdim=True).clamp(min=1)


def only_last(ranks: Tensor, query: Tensor) -> Tensor:
    """1 for the variable that is asked last. (n, N)"""
    asked = ranks.masked_fill(~query, -1)
    return (query & (asked == asked.amax(1, keepdim=True))).float()


def with_order_of_given(ranks: Tensor, given: Tensor, order: Tensor) -> Tensor:
    """Ranks whose given variables are -g, ..., -1 in the order of their own ranks `order` 0, ..., g-1. (n, N)"""
    return torch.where(given, order - given.sum(1, keepdim=True), ranks)
