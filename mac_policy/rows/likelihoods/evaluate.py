"""Likelihoods of rows, computed by all processes together."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mac_policy.rows.likelihoods.queries import Queries
from mac_policy.rows.model import RowModel
from mac_policy.rows.sets.row_set import Rows
from mac_policy.training.fabric import Fabric
from mac_policy.training.streams import stream

CHUNK = 32  # rows that share random draws, so that results do not depend on the number of processes


def log_likelihoods(
    model: RowModel,
    rows: Rows,
    queries: Queries,
    *,
    fabric: Fabric,
    seed: int = 0,
    orders: int = 1,
    steps: int = 0,
) -> dict[str, Tensor]:
    """log p(x_query | x_given) in nats of one row for each query, by every density of the model: (R,).

    The rows are chosen by `some_rows`. The precision is full, whatever it was in training.

    Random orders depend on `seed`; the steps of an estimate (`steps` > 0) do not, so that arms share them.
    """
    count = len(queries.query)
    training = model.training
    model.eval()
    totals: dict[str, Tensor] = {}
    index = some_rows(len(rows), count)
    starts = range(0, count, CHUNK)
    for chunk in range(fabric.global_rank, len(starts), fabric.world_size):
        here = slice(starts[chunk], min(starts[chunk] + CHUNK, count))
        found = model.log_prob(
            row_tensor(rows, index[here]).to(fabric.device),
            query=queries.query[here].to(fabric.device),
            given=queries.given[here].to(fabric.device),
            generator=stream(seed, "orders", chunk),
            orders=orders,
            steps=steps or None,
            step_generator=stream(0, "steps", chunk),
        )
        for name, values in found.items():
            totals.setdefault(name, torch.zeros(count, dtype=torch.float64))[here] = values.double().cpu()
    model.train(training)
    return _gathered(model, totals, count, fabric)


def _gathered(model: RowModel, totals: Mapping[str, Tensor], count: int, fabric: Fabric) -> dict[str, Tensor]:
    """The sum over the processes; each has filled its own rows."""
    found: dict[str, Tensor] = {}
    for name in model.densities:
        mine = totals.get(name, torch.zeros(count, dtype=torch.float64)).to(fabric.device)
        found[name] = fabric.all_reduce(mine, reduce_op="sum").cpu()
    return found


def some_rows(available: int, count: int) -> NDArray[np.int64]:
    """The rows of a split that are evaluated: all of them, or a fixed random sample of `count`.

    Neighbours in a file may share a writer, an article or an hour, so that the first rows are not a random sample.

    >>> from mac_policy.rows.likelihoods.evaluate import some_rows
    >>> some_rows(3, 3), len(set(some_rows(1000, 10).tolist()))
    (array([0, 1, 2]), 10)
    """
    if count >= available:
        return np.arange(available)
    drawn = torch.randperm(available, generator=stream(0, "rows"))[:count]
    return np.sort(drawn.numpy())


def row_tensor(rows: Rows, index: NDArray[np.int64]) -> Tensor:
    """Rows as a tensor (B, N) of the same type."""
    return torch.from_numpy(np.ascontiguousarray(rows[index]))
