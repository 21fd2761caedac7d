"""The quick form of `decoding.fill` for a TrunkQuery network: one row on the CPU, in NumPy.

For a single row the overhead of a call weighs more than its arithmetic. The first layer of the query network is
updated with each value that becomes known, and the last layer computes only the parameters of the next dim.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from typing import Any, Protocol, TypeGuard, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mac_policy.core.frame import Frame
from mac_policy.core.heads import GaussianMixture
from mac_policy.core.heads.continuous import HALF_LOG_2PI, MAX_LOG_STD
from mac_policy.core.heads.widened import Widened
from mac_policy.core.networks import Network, PathTransformer, TrunkQuery
from mac_policy.policies.decoding import How, Path

Array = NDArray[np.float32]
SQRT_HALF = math.sqrt(0.5)
ALONE = 2**18
"""Multiplications up to which OpenBLAS uses one thread."""
W = TypeVar("W")


def suits(network: Network) -> TypeGuard[TrunkQuery]:
    """Whether `Query` can read this network."""
    return (
        isinstance(network, TrunkQuery)
        and network.step is None
        and network.mode is None
        and all(isinstance(layer, (nn.Linear, nn.ReLU)) for layer in network.query)
    )


class Weights:
    """The query network's weights as arrays that share their memory."""

    def __init__(self, network: TrunkQuery) -> None:
        n, f = network.num_variables, network.num_features
        layers = [layer for layer in network.query if isinstance(layer, nn.Linear)]
        first = as_array(layers[0].weight)
        self.features = first[:, : n * f].T.reshape(n, f, -1)
        self.values = self.features[:, 0]
        self.bits, self.context = first[:, n * f : n * (f + 1)].T, first[:, n * (f + 1) :]
        self.bias = as_array(layers[0].bias)
        self.hidden = [(as_array(layer.weight), as_array(layer.bias)) for layer in layers[1:]]
        rows = as_array(network.output.weight), as_array(network.output.bias)
        self.output, self.offset = (part.reshape(n, network.num_params, *part.shape[1:]) for part in rows)


_kept: WeakKeyDictionary[nn.Module, tuple[int, Any]] = WeakKeyDictionary()


def kept_weights(arrays: Callable[[Any], W], network: TrunkQuery | PathTransformer) -> W:
    """The arrays of a network, made again only when its weights have moved in memory."""
    address = network.output.weight.data_ptr()
    kept = _kept.get(network)
    if kept is None or kept[0] != address:
        kept = _kept[network] = address, arrays(network)
    found: W = kept[1]
    return found


class Reader(Protocol):
    """A network along one path of a single row."""

    def see(self, variable: int, value: float) -> None:
        """Add a dimension to the evidence."""

    def params(self, variable: int) -> Array:
        """(P,) parameters of one dimension's conditional."""
        ...


class Query:
    """A `Reader` of the query network; `sum` is its first layer before the ReLU, kept up to date."""

    def __init__(self, network: TrunkQuery, context: Tensor, categories: range = range(0)) -> None:
        """`context` (1, C); `categories`: the variables that are no real numbers."""
        self.network, self.context, self.categories = network, context, categories
        self.weights = kept_weights(Weights, network)
        self.sum = self.weights.context @ as_array(network.trunk(context)[0])
        self.sum += self.weights.bias

    def again(self) -> Query:
        """Another reader that has seen what this one has."""
        found = copy(self)
        found.sum = self.sum.copy()
        return found

    def reads(self, network: Network, context: Tensor) -> bool:
        """Whether this is a reader of that network and context."""
        return self.network is network and torch.equal(self.context, context)

    def see(self, variable: int, value: float) -> None:
        if variable in self.categories:
            self.sum += self.weights.features[variable, int(value)]
        else:
            self.sum += value * self.weights.values[variable]
        self.sum += self.weights.bits[variable]

    def params(self, variable: int) -> Array:
        hidden = np.maximum(self.sum, 0.0)
        for weight, bias in self.weights.hidden:
            hidden = weight @ hidden
            hidden += bias
            np.maximum(hidden, 0.0, out=hidden)
        found: Array = self.weights.output[variable] @ hidden
        found += self.weights.offset[variable]
        return found

    def with_class(self, label: int, classes: NDArray[np.int64]) -> Array:
        """(K, W): `sum` with each of K classes of a label added to the evidence."""
        found: Array = self.sum + self.weights.features[label, classes] + self.weights.bits[label]
        return found

    def params_along(self, sums: Array, dims: list[int], x: Array) -> list[Array]:
        """For each of `dims`, one after another, the (K, P) parameters of its conditional given the values x (N,) of
        the dims before it, and the evidence of each of `sums` (K, W): all in one pass."""
        weights, before = self.weights, np.zeros((len(dims), 1, sums.shape[1]), np.float32)
        for i, dim in enumerate(dims[:-1]):
            before[i + 1] = before[i] + x[dim] * weights.values[dim] + weights.bits[dim]
        hidden = np.maximum(before + sums, 0.0).reshape(-1, sums.shape[1])
        for weight, bias in weights.hidden:
            hidden = product(hidden, weight)
            hidden += bias
            np.maximum(hidden, 0.0, out=hidden)
        each = hidden.reshape(len(dims), len(sums), -1)
        return [part @ weights.output[dim].T + weights.offset[dim] for part, dim in zip(each, dims, strict=True)]


def fill_one(
    reader: Reader,
    head: GaussianMixture,
    values: Tensor,
    given: Tensor,
    path: Path,
    how: How,
    noise: Tensor | None,
    frame: Frame | None = None,
) -> Array:
    """(N,) values of one row with what is not given chosen along the path; arguments as of `decoding.fill`."""
    x, seen = values[0].tolist(), given[0].tolist()
    low, high = path.low.tolist(), path.high.tolist()
    kicks = None if noise is None else noise[0].numpy()
    spread = as_array(head.spread)
    places = None if frame is None else list(zip(frame.scale.tolist(), frame.shift[0].tolist(), strict=True))
    see_given(reader, x, seen)
    for variable in path.dims:
        if seen[variable]:
            continue
        logits, means, log_stds = mixture(reader.params(variable), spread, head)
        if places is not None:
            scale, shift = places[variable]
            means = scale * means + shift
        value = pick(logits, means, log_stds, how, None if kicks is None else kicks[variable])
        x[variable] = min(max(value, low[variable]), high[variable])
        reader.see(variable, x[variable])
    return np.array(x, dtype=np.float32)


def see_given(reader: Reader, x: list[float], given: list[bool]) -> None:
    """Show the reader the values that are given."""
    for variable, held in enumerate(given):
        if held:
            reader.see(variable, x[variable])


class Densities:
    """Densities of one row's actions by the honest model, from the parameters of their conditionals."""

    def __init__(self, head: GaussianMixture, widened: Widened, frame: Frame | None) -> None:
        self.head, self.spread = head, as_array(head.spread)
        self.widened = [as_array(part) for part in (widened.log_narrow, widened.log_wide, widened.logit_share)]
        self.places = None if frame is None else (as_array(frame.scale), as_array(frame.shift[0]))

    def along(self, reader: Query, sums: Array, dims: list[int], x: Array) -> Array:
        """(K,): log p(x[dims]) given the evidence of each of `sums` (K, W)."""
        found: Array = self(np.stack(reader.params_along(sums, dims, x)), dims, x[dims]).sum(0)
        return found

    def __call__(self, params: Array, dims: list[int], x: Array) -> Array:
        """log p(x) (m, K) of conditionals (m, K, P) of m dims with values x (m,)."""
        logits, means, log_stds = mixture(params, self.spread, self.head)
        if self.places is not None:
            scale, shift = (part[dims][:, None, None] for part in self.places)
            means = scale * means + shift
        narrow, wide, logit = (part[dims][:, None, None] for part in self.widened)
        distance = 0.5 * (x[:, None, None] - means) ** 2
        inner = logits - log_stds
        parts = [
            inner - np.logaddexp(0.0, sign * logit) - factor - distance * np.exp(-2.0 * (log_stds + factor))
            for sign, factor in ((1.0, narrow), (-1.0, wide))
        ]
        return log_sum(np.concatenate(parts, -1)) - log_sum(logits) - HALF_LOG_2PI


def product(rows: Array, weight: Array) -> Array:
    """rows @ weight.T: by the BLAS library of NumPy where it uses the calling thread alone, since for products this
    small waiting for other threads costs more than it saves; otherwise by torch, in as many threads as it was given."""
    if rows.shape[0] * weight.size <= ALONE:
        found: Array = rows @ weight.T
        return found
    return as_array(nn.functional.linear(torch.from_numpy(rows), torch.from_numpy(weight)))


def log_sum(logs: Array) -> Array:
    """log of the sum of exponentials over the last axis."""
    top = logs.max(-1, keepdims=True)
    found: Array = np.log(np.exp(logs - top).sum(-1)) + top[..., 0]
    return found


def mixture(params: Array, spread: Array, head: GaussianMixture) -> tuple[Array, Array, Array]:
    """Logits, means and log standard deviations, each (..., K), as GaussianMixture reads its parameters."""
    k = head.num_components
    low, high = head.min_log_std, MAX_LOG_STD
    raw = params[..., 2 * k : 3 * k] + head.start
    floored = low + np.logaddexp(0.0, raw - low)
    log_stds = high - np.logaddexp(0.0, high - floored)
    return params[..., :k], params[..., k : 2 * k] + spread, np.maximum(log_stds, low)


def pick(logits: Array, means: Array, log_stds: Array, how: How, kick: Array | None) -> float:
    if how.random and kick is not None:
        tempered = logits / how.temperature + (1 - 1 / how.temperature) * log_stds
        weights = np.exp(tempered - tempered.max())
        order = means.argsort(kind="stable")
        cumulated = weights[order].cumsum()
        level = 0.5 * math.erfc(-SQRT_HALF * float(kick[0])) * cumulated[-1]
        chosen = order[min(int(cumulated.searchsorted(level)), len(order) - 1)]
        return float(means[chosen]) + math.sqrt(how.temperature) * math.exp(log_stds[chosen]) * float(kick[1])
    weights = np.exp(logits - logits.max())
    if how.kind == "mean":
        return float(weights @ means / weights.sum())
    inverse = np.exp(-log_stds)
    scaled = (means[:, None] - means) * inverse
    density = np.exp(-0.5 * scaled * scaled) @ (weights * inverse)
    return float(means[density.argmax()])


def as_array(tensor: Tensor) -> Array:
    array: Array = tensor.detach().numpy()
    return array
