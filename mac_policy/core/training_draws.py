"""The random draws of a training step: masks for set networks, queries with whole paths for path networks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from mac_policy.core.checks import check_entries, check_mask, check_rows


class TrainingMasks(NamedTuple):
    """Evidence and weights of one training step; the loss is - sum_i weights_i log p(x_i | x_evidence)."""

    evidence: Tensor  # (n, N) bool
    weights: Tensor  # (n, N) float, >= 0, zero on evidence
    mode: Tensor | None = None  # (n,) long, for networks that read the activation mode

    @property
    def known(self) -> Tensor:
        """What a network reads beside the features."""
        return self.evidence

    def to(self, device: torch.device | str) -> TrainingMasks:
        return map_tensors(lambda part: part.to(device), self)


class TrainingQueries(NamedTuple):
    """Queries and weights of one training step; the loss is - sum_i weights_i log p(x_i | variables before i).

    ranks: as `Factorization.ranks`, but the given variables are ordered too: -g, ..., -1 for g of them.
    """

    ranks: Tensor  # (n, N) long
    weights: Tensor  # (n, N) float, >= 0, zero where nothing is queried
    mode: Tensor | None = None  # (n,) long, for networks that read the activation mode

    @property
    def given(self) -> Tensor:
        return self.ranks < 0

    @property
    def query(self) -> Tensor:
        return (self.ranks >= 0) & (self.ranks < self.ranks.shape[1])

    @property
    def known(self) -> Tensor:
        """What a network reads beside the features."""
        return self.ranks

    def to(self, device: torch.device | str) -> TrainingQueries:
        return map_tensors(lambda part: part.to(device), self)


TrainingDraws: TypeAlias = TrainingMasks | TrainingQueries

Draws = TypeVar("Draws", bound=tuple[Any, ...])


def map_tensors(function: Callable[[Tensor], Tensor], draws: Draws) -> Draws:
    """The same NamedTuple with `function` applied to every tensor in it; None stays, NamedTuples may be nested."""

    def mapped(part: Any) -> Any:
        if isinstance(part, Tensor):
            return function(part)
        return None if part is None else map_tensors(function, part)

    return type(draws)(*map(mapped, draws))


def chosen_rows(first: Tensor, one: Draws, other: Draws) -> Draws:
    """The rows of `one` where `first` (n, 1) is true, elsewhere those of `other`; neither has nested draws."""
    parts: Any = (None if a is None else torch.where(first, a, b) for a, b in zip(one, other, strict=True))
    return type(one)(*parts)


def uniform_over(mask: Tensor) -> Tensor:
    """1 / |mask| for every variable in it, zeros where it is empty. (n, N)"""
    chosen = mask.numpy()
    each = (1 / np.maximum(chosen.sum(1, keepdims=True), 1)).astype(np.float32)
    return torch.from_numpy(chosen * each)


def only_last(ranks: Tensor, query: Tensor) -> Tensor:
    """1 for the variable that is queried last. (n, N)"""
    queried_ranks = ranks.masked_fill(~query, -1)
    return (query & (queried_ranks == queried_ranks.amax(1, keepdim=True))).float()


def check_kind(draws: TrainingDraws, kind: str) -> None:
    """Raise unless this is what a network of this kind trains on."""
    wanted, method = (TrainingQueries, "queries") if kind == "path" else (TrainingMasks, "masks")
    if not isinstance(draws, wanted):
        raise ValueError(
            f"a {kind} network trains on {wanted.__name__}, which factorization.training_{method}(n) draws, "
            f"got {type(draws).__name__}"
        )


def known_and_weights(draws: TrainingDraws, x: Tensor, missing: Tensor | None, validate: bool) -> tuple[Tensor, Tensor]:
    """Evidence (bool) of masks, or ranks (long) of queries, without what is missing; and weights. Both (B, N)."""
    check_rows("weights", draws.weights, len(x))
    if draws.weights.shape != x.shape:
        raise ValueError(f"weights must have the shape of x, {tuple(x.shape)}, got {tuple(draws.weights.shape)}")
    if isinstance(draws, TrainingQueries):
        known, nothing = check_ranks(draws.ranks, x), x.shape[1]
        unweighted, where = ~draws.query, "where nothing is queried"
    else:
        known, nothing = check_mask("evidence", draws.evidence, len(x), x.shape[1]), 0
        unweighted, where = known, "where there is evidence"
    if validate:
        weights = draws.weights
        bad = ~((weights >= 0) & (weights < math.inf)) | (unweighted & (weights != 0))
        check_entries("weights", weights, bad, f"a finite number of at least 0, and 0 {where}")
    if missing is None:
        return known, draws.weights
    return known.masked_fill(missing, nothing), draws.weights.masked_fill(missing, 0.0)


def check_ranks(ranks: Tensor, x: Tensor) -> Tensor:
    """Return `ranks` when they are long and of the shape of x."""
    if not isinstance(ranks, Tensor) or ranks.dtype != torch.long or ranks.shape != x.shape:
        found = f"{tuple(ranks.shape)} of {ranks.dtype}" if isinstance(ranks, Tensor) else type(ranks).__name__
        raise ValueError(f"ranks must be a tensor of the shape of x, {tuple(x.shape)}, and torch.long, got {found}")
    return ranks
