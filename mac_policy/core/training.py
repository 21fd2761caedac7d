"""What a training step asks of a model, checked: masks for a set network, whole paths for a path network."""

from __future__ import annotations

import torch
from torch import Tensor

from mac_policy.core.checks import check_mask, check_rows, check_weights
from mac_policy.core.factorization import TrainingMasks
from mac_policy.core.queries import TrainingQueries


def check_kind(asked: TrainingMasks | TrainingQueries, kind: str) -> None:
    """Raise unless this is what a network of this kind trains on."""
    wanted, method = (TrainingQueries, "queries") if kind == "path" else (TrainingMasks, "masks")
    if not isinstance(asked, wanted):
        raise ValueError(
            f"a {kind} network trains on {wanted.__name__}, which factorization.training_{method}(n) draws, "
            f"got {type(asked).__name__}"
        )


def known_and_weights(
    asked: TrainingMasks | TrainingQueries, x: Tensor, missing: Tensor | None, validate: bool
) -> tuple[Tensor, Tensor]:
    """Evidence (bool) of masks, or ranks (long) of queries, without what is missing; and weights. Both (B, N)."""
    check_rows("weights", asked.weights, len(x))
    if asked.weights.shape != x.shape:
        raise ValueError(f"weights must have the shape of x, {tuple(x.shape)}, got {tuple(asked.weights.shape)}")
    if isinstance(asked, TrainingQueries):
        known = check_ranks(asked.ranks, x)
        if validate:
            check_weights(asked.weights, ~asked.query, "where nothing is asked")
    else:
        known = check_mask("evidence", asked.evidence, len(x), x.shape[1])
        if validate:
            check_weights(asked.weights, known, "where there is evidence")
    if missing is None:
        return known, asked.weights
    nothing = x.shape[1] if isinstance(asked, TrainingQueries) else False
    return known.masked_fill(missing, nothing), asked.weights.masked_fill(missing, 0.0)


def check_ranks(ranks: Tensor, x: Tensor) -> Tensor:
    """Return `ranks` when they are long and of the shape of x."""
    if not isinstance(ranks, Tensor) or ranks.dtype != torch.long or ranks.shape != x.shape:
        found = f"{tuple(ranks.shape)} of {ranks.dtype}" if isinstance(ranks, Tensor) else type(ranks).__name__
        raise ValueError(f"ranks must be a tensor of the shape of x, {tuple(x.shape)}, and torch.long, got {found}")
    return ranks
