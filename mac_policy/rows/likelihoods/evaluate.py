"""Log-likelihoods of rows under a trained arm, computed by all processes and cached in the arm's folder."""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mac_policy.core import UntrainedQueryWarning
from mac_policy.rows.baselines.latent import LatentModel
from mac_policy.rows.checkpoint import Kept, read_kept, write_kept
from mac_policy.rows.likelihoods.queries import EvaluationSettings, Queries, evaluation_queries
from mac_policy.rows.model import RowModel
from mac_policy.rows.sets.row_set import Rows, RowSet
from mac_policy.training.fabric import Fabric
from mac_policy.training.streams import stream

LIKELIHOOD = "likelihood.safetensors"

AT_RANDOM = "-at-random"


@dataclass(frozen=True)
class Outcome:
    """The result of one arm and seed.

    log_likelihood: 'query.density' to the log-likelihood of each test row in nats (R,)
    asked: query to the number of queried variables of each row (R,)
    diverged: the reason if there is no likelihood
    """

    arm: str
    seed: int
    steps: int = 0
    seconds: float = 0.0
    evaluation_seconds: float = 0.0
    log_likelihood: Mapping[str, Tensor] | None = None
    asked: Mapping[str, Tensor] | None = None
    diverged: str | None = None

    def metrics(self, num_variables: int, discrete: bool, in_nats: bool = False) -> dict[str, NDArray[np.float64]]:
        """The metrics of each test row (R,): '<query>' for the head's own density, '<query>_<density>' for others.

        Discrete: bits, lower is better. 'joint' and 'marginal' are divided by the number N of variables, as in the
        papers, whatever the cardinality of a marginal; 'conditional' and '..._per_asked' by the number of queried
        variables. `in_nats` adds the joint in nats per row, as is usual for binary images.
        Real numbers: log-likelihoods in nats, higher is better.
        """
        found: dict[str, NDArray[np.float64]] = {}
        for key, values in (self.log_likelihood or {}).items():
            query, density = key.rsplit(".", 1)
            name = query if density == "model" else f"{query}_{density.removeprefix('model-')}"
            nats = values.numpy()
            if not discrete:
                found[name] = nats
                continue
            asked = (self.asked or {})[query].double().numpy()
            if query in ("joint", "marginal"):
                found[name] = -nats / (num_variables * math.log(2))
            if name == "joint" and in_nats:
                found["joint_nats"] = -nats
            if query != "joint":
                suffix = "_per_asked" if query == "marginal" else ""
                found[f"{name}{suffix}"] = per_asked(-nats / math.log(2), asked)
        return found


def per_asked(bits: NDArray[np.float64], asked: NDArray[np.float64]) -> NDArray[np.float64]:
    """Linearise the ratio sum(bits) / sum(asked): values with its mean and, to first order, its variance."""
    ratio = bits.sum() / asked.sum()
    spread: NDArray[np.float64] = ratio + (bits - ratio * asked) / asked.mean()
    return spread


def evaluate(
    model: RowModel,
    rows: RowSet,
    settings: EvaluationSettings,
    folder: Path,
    *,
    fabric: Fabric,
    arm: str,
    seed: int,
) -> Outcome:
    """Compute the log-likelihoods of the test rows, or read them from the folder if they are cached there."""
    count = min(settings.rows or len(rows.test), len(rows.test))
    said = {key: value for key, value in asdict(settings).items() if not key.startswith(("curve", "rows_per"))}
    of_rows = {"rows": count, "drawn": count < len(rows.test), "sha256": rows.sha256, "note": rows.full_note}
    facts = json.loads(json.dumps({"evaluation": said, "precision": "fp32", **of_rows}))
    if isinstance(model, LatentModel):
        facts["samples_a_row"] = settings.importance_samples or model.importance_samples
    queries = evaluation_queries(count, rows.shape, settings)
    if not model.any_query:
        queries = {"joint": queries["joint"]}
    sizes = {
        f"{name}.{density}{end}": count
        for name, asked in queries.items()
        for suffix, asks in in_modes(model, asked).items()
        for density in asks.densities
        for end in suffix
    }
    found = fabric.broadcast(read_kept(folder / LIKELIHOOD, facts, sizes) if fabric.is_global_zero else None)
    if found is None:
        found = _measured(model, rows, settings, queries, fabric, seed)
        if fabric.is_global_zero:
            write_kept(folder / LIKELIHOOD, found, facts)
    kept, seconds = found
    # In the order of the queries; the file may have another.
    tensors = {key: kept[key] for name in queries for key in kept if key.rsplit(".", 1)[0] == name}
    asked = {name: query.query.sum(1) for name, query in queries.items()}
    bad = next((key for key, values in tensors.items() if not bool(torch.isfinite(values).all())), None)
    if bad is not None:
        return Outcome(arm, seed, diverged=f"the likelihood of {bad.rsplit('.', 1)[0]} queries is NaN or infinite")
    return Outcome(arm, seed, evaluation_seconds=seconds, log_likelihood=tensors, asked=asked)


def _measured(
    model: RowModel, rows: RowSet, settings: EvaluationSettings, queries: Mapping[str, Any], fabric: Fabric, seed: int
) -> Kept:
    begun = time.perf_counter()
    tensors: dict[str, Tensor] = {}
    if settings.importance_samples and isinstance(model, LatentModel):
        model.importance_samples = settings.importance_samples
    for name, asked in queries.items():
        for suffix, asks in in_modes(model, asked).items():
            values = log_likelihoods(
                asks, rows.test, asked, fabric=fabric, seed=seed, orders=settings.orders, steps=settings.steps
            )
            tensors |= {f"{name}.{density}{end}": nats.clone() for density, nats in values.items() for end in suffix}
    return Kept(tensors, time.perf_counter() - begun)


def in_modes(model: RowModel, asked: Queries) -> dict[tuple[str, ...], RowModel]:
    """The model in the mode that fills the query last, and in the random mode, by the suffixes of their densities.

    A model without modes, or without this mode, is evaluated once.
    """
    modes = model.modes
    if asked.mode is None or not modes:
        return {("",): model}
    if asked.mode not in modes:
        return {("", AT_RANDOM): model}
    return {("",): model.in_mode(asked.mode), (AT_RANDOM,): model}


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

    The rows are chosen by `some_rows`. The precision is float32, also after training in lower precision.

    Random orders depend on `seed`. The steps of an estimate (`steps` > 0) do not, so that all arms share them.
    """
    count = len(queries.query)
    training = model.training
    model.eval()
    totals = {name: torch.zeros(count, dtype=torch.float64) for name in model.densities}
    index = some_rows(len(rows), count)
    starts = range(0, count, CHUNK)
    for chunk in range(fabric.global_rank, len(starts), fabric.world_size):
        here = slice(starts[chunk], min(starts[chunk] + CHUNK, count))
        with warnings.catch_warnings():
            # All arms are compared on the same queries, also on those that an arm is not trained for.
            warnings.simplefilter("ignore", UntrainedQueryWarning)
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
            totals[name][here] = values.double().cpu()
    model.train(training)
    # Each process has filled its own rows; the others are 0.
    return {name: fabric.all_reduce(nats.to(fabric.device), reduce_op="sum").cpu() for name, nats in totals.items()}


def some_rows(available: int, count: int) -> NDArray[np.int64]:
    """The rows of a split that are evaluated: all of them, or a fixed random sample of `count`.

    Neighbours in a file may share a writer, an article or an hour, so that the first rows are not a random sample.

    >>> from mac_policy.rows.likelihoods.evaluate import some_rows
    >>> some_rows(3, 3), len(set(some_rows(1000, 10).tolist()))
    (array([0, 1, 2]), 10)
    """
    if count >= available:
        return np.arange(available)
    return np.sort(torch.randperm(available, generator=stream(0, "rows"))[:count].numpy())


def row_tensor(rows: Rows, index: NDArray[np.int64]) -> Tensor:
    """The rows at `index` as a tensor (B, N) of the same dtype."""
    return torch.from_numpy(np.ascontiguousarray(rows[index]))
