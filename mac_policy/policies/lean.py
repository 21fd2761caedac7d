"""The path for a single row on the CPU, where a call's overhead weighs more than its arithmetic.

The same numbers as `decoding.fill` with a TrunkQuery network, computed with little: the query network's first layer
is updated as dimensions become known instead of being computed anew, and of the last layer only the rows of the
wanted dimension are.
"""

from __future__ import annotations

import math
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from mac_policy.core.heads import GaussianMixture, Head
from mac_policy.core.heads.continuous import MAX_LOG_STD
from mac_policy.core.networks import SetNetwork, TrunkQuery
from mac_policy.policies.decoding import How, Path

Array = NDArray[np.float32]
SQRT_HALF = math.sqrt(0.5)


def suits(network: SetNetwork, head: Head) -> TypeGuard[TrunkQuery]:
    """Whether `fill_one` can answer for this model."""
    return (
        isinstance(network, TrunkQuery)
        and isinstance(head, GaussianMixture)
        and network.step is None
        and network.mode is None
        and all(isinstance(layer, (nn.Linear, nn.ReLU)) for layer in network.query)
    )


class Query:
    """The query network as arrays that share memory with its weights."""

    def __init__(self, network: TrunkQuery, encoded: Array) -> None:
        n = network.num_variables
        layers = [layer for layer in network.query if isinstance(layer, nn.Linear)]
        self.weights = [(_array(layer.weight), _array(layer.bias)) for layer in layers[1:]]
        first = _array(layers[0].weight)
        self.values, self.bits = first[:, :n], first[:, n : 2 * n]
        self.sum = first[:, 2 * n :] @ encoded + _array(layers[0].bias)
        self.output, self.offset, self.size = (
            _array(network.output.weight),
            _array(network.output.bias),
            network.num_params,
        )

    def see(self, variable: int, value: float) -> None:
        """Add a dimension to the evidence."""
        self.sum += value * self.values[:, variable] + self.bits[:, variable]

    def params(self, variable: int) -> Array:
        """(P,) parameters of one dimension's conditional."""
        hidden = np.maximum(self.sum, 0.0)
        for weight, bias in self.weights:
            hidden = weight @ hidden
            hidden += bias
            np.maximum(hidden, 0.0, out=hidden)
        rows = slice(variable * self.size, (variable + 1) * self.size)
        found: Array = self.output[rows] @ hidden + self.offset[rows]
        return found


def fill_one(
    network: TrunkQuery,
    head: GaussianMixture,
    encoded: Tensor,
    values: Tensor,
    given: Tensor,
    path: Path,
    how: How,
    noise: Tensor | None,
) -> Array:
    """(N,) values of one row with what is not given chosen along the path; arguments as of `decoding.fill`."""
    query = Query(network, _array(encoded[0]))
    x, seen = values[0].numpy().copy(), given[0].numpy()
    low, high = path.low.numpy(), path.high.numpy()
    kicks = None if noise is None else noise[0].numpy()
    spread = _array(head.spread)
    for variable in np.flatnonzero(seen).tolist():
        query.see(variable, float(x[variable]))
    for variable in path.dims:
        if seen[variable]:
            continue
        logits, means, log_stds = _mixture(query.params(variable), spread, head)
        value = _pick(logits, means, log_stds, how, None if kicks is None else kicks[variable])
        x[variable] = min(max(value, low[variable]), high[variable])
        query.see(variable, float(x[variable]))
    return x


def _mixture(params: Array, spread: Array, head: GaussianMixture) -> tuple[Array, Array, Array]:
    """Logits, means and log standard deviations, each (K,), as GaussianMixture reads its parameters."""
    k = head.num_components
    low, high = head.min_log_std, MAX_LOG_STD
    raw = params[2 * k :] + head.start
    floored = low + np.logaddexp(0.0, raw - low)
    log_stds = high - np.logaddexp(0.0, high - floored)
    return params[:k], params[k : 2 * k] + spread, np.maximum(log_stds, low)


def _pick(logits: Array, means: Array, log_stds: Array, how: How, kick: Array | None) -> float:
    if how.random and kick is not None:
        weights = np.exp((logits - logits.max()) / how.temperature)
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


def _array(tensor: Tensor) -> Array:
    array: Array = tensor.detach().numpy()
    return array
