"""The quick form of `decoding.fill` for a PathTransformer: one row on the CPU, in NumPy.

For a single row the overhead of a call weighs more than its arithmetic. The arrays share the network's memory.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeGuard

import numpy as np
from scipy.special import ndtr
from torch import Tensor, nn

from mac_policy.core.networks import Network, PathTransformer
from mac_policy.policies.quick_trunk import Array, as_array, kept_weights

EPS = 1e-5  # of layer norms


def suits(network: Network) -> TypeGuard[PathTransformer]:
    """Whether `Walk` can read this network."""
    return (
        isinstance(network, PathTransformer)
        and isinstance(network.value, nn.Sequential)
        and network.context_as == "added"
        and network.free
        and network.mode is None
        and not network.rotary
    )


class Layer(NamedTuple):
    """Weights (outputs, inputs) and biases of a block's linear maps."""

    qkv: Array
    qkv_bias: Array
    merge: Array
    merge_bias: Array
    up: Array
    up_bias: Array
    down: Array
    down_bias: Array


class Weights:
    """The network's weights as arrays that share their memory."""

    def __init__(self, network: PathTransformer) -> None:
        (into, into_bias), (self.value, self.value_bias) = (arrays(layer) for layer in linear(network.value))
        self.into, self.into_bias = into[:, 0], into_bias
        self.position, self.target = as_array(network.position.weight), as_array(network.target.weight)
        self.layers = [
            Layer(*(array for part in linear(block) for array in arrays(part)))  # qkv, merge, up, down
            for block in network.blocks
        ]
        self.output, self.output_bias = as_array(network.output.weight), as_array(network.output.bias)
        self.heads = network.heads


class Walk:
    """A `Reader` of a path network: the row's keys and values (layers, heads, variables, size), of which `used` columns
    are filled, and the values that are not read yet."""

    def __init__(self, network: PathTransformer, encoded: Tensor) -> None:
        self.weights, self.encoded = kept_weights(Weights, network), as_array(encoded[0])
        self.none, self.used = len(self.weights.position) - 1, 0
        self.size = len(self.encoded) // self.weights.heads
        self.keys = np.empty((len(self.weights.layers), self.weights.heads, self.none, self.size), np.float32)
        self.values = np.empty_like(self.keys)
        self.unread: list[tuple[int, float]] = []

    def see(self, variable: int, value: float) -> None:
        self.unread.append((variable, value))

    def params(self, variable: int) -> Array:
        unread, self.unread = self.unread, []
        if self.used:
            return self.step(*unread[0], variable)
        return self.begin([place for place, _ in unread], [value for _, value in unread], variable)

    def begin(self, given: list[int], values: list[float], target: int) -> Array:
        """Reads what is given, together with the token that carries no value; (P,) parameters of `target`."""
        w, none = self.weights, self.none
        hidden = np.multiply.outer(np.array([*values, 0.0], np.float32), w.into) + w.into_bias
        hidden *= ndtr(hidden)
        x = hidden @ w.value.T
        x += w.value_bias + self.encoded
        x += w.position[[*given, none]]
        x[:-1] += w.target[none]
        x[-1] += w.target[target]
        for i, layer in enumerate(w.layers):
            x = self._read_all(x, i, layer)
        self.used = len(x)
        return self._params(x[-1])

    def step(self, variable: int, value: float, target: int) -> Array:
        """Reads one more value; (P,) parameters of `target`."""
        w = self.weights
        hidden = value * w.into
        hidden += w.into_bias
        hidden *= ndtr(hidden)
        x: Array = w.value @ hidden
        x += w.value_bias
        x += w.position[variable]
        x += w.target[target]
        x += self.encoded
        for i, layer in enumerate(w.layers):
            self._read_one(x, i, layer)
        self.used += 1
        return self._params(x)

    def _params(self, x: Array) -> Array:
        found: Array = self.weights.output @ normed(x)
        found += self.weights.output_bias
        return found

    def _read_one(self, x: Array, i: int, layer: Layer) -> None:
        """One token (W,) through a block, in place."""
        qkv = layer.qkv @ normed(x)
        qkv += layer.qkv_bias
        q, k, v = qkv.reshape(3, self.weights.heads, self.size)
        self.keys[i, :, self.used], self.values[i, :, self.used] = k, v
        keys, values = self.keys[i, :, : self.used + 1], self.values[i, :, : self.used + 1]
        q *= 1 / math.sqrt(self.size)
        share = (keys @ q[:, :, None])[:, :, 0]
        share -= share.max()
        np.exp(share, out=share)
        share /= np.add.reduce(share, 1, keepdims=True)
        x += layer.merge @ (share[:, None] @ values).reshape(-1)
        x += layer.merge_bias
        hidden = layer.up @ normed(x)
        hidden += layer.up_bias
        hidden *= ndtr(hidden)
        x += layer.down @ hidden
        x += layer.down_bias

    def _read_all(self, x: Array, i: int, layer: Layer) -> Array:
        """The first tokens (T, W) through a block: what is given sees what is given, the last one all."""
        count, heads = len(x), self.weights.heads
        qkv = normed_rows(x) @ layer.qkv.T
        qkv += layer.qkv_bias
        q, k, v = qkv.reshape(count, 3, heads, self.size).transpose(1, 2, 0, 3)
        self.keys[i, :, :count], self.values[i, :, :count] = k, v
        share = q @ k.transpose(0, 2, 1)
        share *= 1 / math.sqrt(self.size)
        share[:, :-1, -1] = -np.inf
        share -= share.max(2, keepdims=True)
        np.exp(share, out=share)
        share /= np.add.reduce(share, 2, keepdims=True)
        x = x + (share @ v).transpose(1, 0, 2).reshape(count, -1) @ layer.merge.T
        x += layer.merge_bias
        hidden = normed_rows(x) @ layer.up.T
        hidden += layer.up_bias
        hidden *= ndtr(hidden)
        x += hidden @ layer.down.T
        x += layer.down_bias
        return x


def linear(module: nn.Module) -> list[nn.Linear]:
    """Its linear layers, in the order in which they are made."""
    return [part for part in module.modules() if isinstance(part, nn.Linear)]


def arrays(layer: nn.Linear) -> tuple[Array, Array]:
    """Weight and bias."""
    return as_array(layer.weight), as_array(layer.bias)


def normed(x: Array) -> Array:
    """(W,) less its mean, by its standard deviation."""
    share = 1 / len(x)
    found: Array = x - np.add.reduce(x) * share
    found *= 1 / math.sqrt(found.dot(found) * share + EPS)
    return found


def normed_rows(x: Array) -> Array:
    """The same of each row (T, W)."""
    share = np.float32(1 / x.shape[1])
    found = x - np.add.reduce(x, 1, keepdims=True, dtype=np.float32) * share
    variance = np.einsum("ij,ij->i", found, found) * share + np.float32(EPS)
    scaled: Array = found / np.sqrt(variance)[:, None]
    return scaled
