"""Fully connected set networks: plain (the paper's policies) and residual (ACE's tables)."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor, nn

from mac_policy.core.networks.embeddings import StepEmbedding
from mac_policy.core.networks.network import SetNetwork, check_sizes, small_output

FEW = 4
"""The last layer answers only what is wanted when this is at most one conditional in so many."""


class ResidualBlock(nn.Module):
    """h + W2 relu(W1 relu(h)), the block of ACE's networks."""

    def __init__(self, width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden: Tensor) -> Tensor:
        inner = self.first(hidden.relu())
        out: Tensor = hidden + self.second(self.dropout(inner.relu()))
        return out


def hidden_layers(inputs: int, width: int, depth: int, residual: bool, dropout: float = 0.0) -> nn.Sequential:
    """``depth`` hidden layers with ReLU, or one layer and ``depth`` residual blocks and ReLU."""
    layers: list[nn.Module] = [nn.Linear(inputs, width)]
    if residual:
        layers += [ResidualBlock(width, dropout) for _ in range(depth)]
        return nn.Sequential(*layers, nn.ReLU())
    layers.append(nn.ReLU())
    for _ in range(depth - 1):
        layers += [nn.Dropout(dropout)] if dropout else []
        layers += [nn.Linear(width, width), nn.ReLU()]
    for layer in layers:
        if isinstance(layer, nn.Linear):
            # The default initialisation halves the signal at every ReLU layer.
            nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers)


class FlatNetwork(SetNetwork):
    """A set network that reads everything as one vector: [seen values, evidence bits, context, step, mode]."""

    output: nn.Linear

    @abstractmethod
    def hidden_of(self, features: Tensor, evidence: Tensor, encoded: Tensor | None, mode: Tensor | None) -> Tensor:
        """``(B, W)``: what the last layer reads."""

    def forward(
        self,
        features: Tensor,
        evidence: Tensor,
        encoded: Tensor | None = None,
        mode: Tensor | None = None,
        wanted: Tensor | None = None,
    ) -> Tensor:
        """With `wanted` (B, N) bool only the parameters of these conditionals, ``(A, P)``."""
        hidden = self.hidden_of(features, evidence, encoded, mode)
        if wanted is None:
            out: Tensor = self.output(hidden)
            return out.view(-1, self.num_variables, self.num_params)
        return self._answers(hidden, wanted)

    def some(
        self, features: Tensor, evidence: Tensor, encoded: Tensor | None, mode: Tensor | None, wanted: Tensor
    ) -> Tensor:
        return self(features, evidence, encoded, mode, wanted)

    def _answers(self, hidden: Tensor, wanted: Tensor) -> Tensor:
        """``(A, P)``: the rows of the last layer that are wanted, one variable after another, if they are few."""
        row, variable = wanted.nonzero(as_tuple=True)
        if FEW * len(row) > wanted.numel():
            every: Tensor = self.output(hidden)
            return every.view(*wanted.shape, self.num_params)[wanted]
        weight = self.output.weight.view(self.num_variables, self.num_params, -1)
        bias = self.output.bias.view(self.num_variables, self.num_params)
        if len(row) == len(wanted) > 0 and bool((variable == variable[0]).all()):  # one for every row
            return nn.functional.linear(hidden, weight[variable[0]], bias[variable[0]])
        found = hidden.new_empty(len(row), self.num_params)
        for each in variable.unique().tolist():
            here = variable == each
            found[here] = nn.functional.linear(hidden[row[here]], weight[each], bias[each]).to(found)
        return found

    def _embed_conditions(self, step_dim: int, mode_dim: int) -> int:
        """Makes the embeddings of step and mode, and returns the size of the vector without the context."""
        check_sizes(mode_dim=mode_dim)
        check_sizes(0, step_dim=step_dim)
        self.step = StepEmbedding(step_dim) if step_dim else None
        self.mode = nn.Embedding(self.num_modes, mode_dim) if self.num_modes > 1 else None
        return self.num_variables * (self.num_features + 1) + step_dim + (mode_dim if self.num_modes > 1 else 0)

    def _flat(self, features: Tensor, evidence: Tensor, encoded: Tensor | None, mode: Tensor | None) -> Tensor:
        visible = self._visible(features, evidence, encoded, mode)
        step = None if self.step is None else self.step(evidence, visible.dtype)
        embedded = None if self.mode is None else self.mode(mode)
        parts = (visible.flatten(1), evidence.to(visible.dtype), encoded, step, embedded)
        return torch.cat([part for part in parts if part is not None], -1)


class MLP(FlatNetwork):
    """One fully connected network over [seen values, evidence bits, context, step, mode].

    ``residual=False``: ``depth`` hidden layers (the MAC paper's kitchen policy: width 2048, depth 8).
    ``residual=True``: ``depth`` residual blocks of two layers, the evidence shown again to the output layer
    (ACE: 4 blocks). ``step_dim`` > 0 concatenates a sinusoidal embedding of the share of variables seen
    (SFARM's tables), ``num_modes`` > 1 one of the mode: a single one says nothing.

        network = MLP(num_variables=9, num_features=1, num_params=60, context_dim=30, width=2048, depth=8)
        network(features, evidence, network.encode(observation))  # (B, 9, 60)
    """

    def __init__(
        self,
        *,
        num_variables: int,
        num_features: int,
        num_params: int,
        context_dim: int = 0,
        num_modes: int = 0,
        width: int = 256,
        depth: int = 3,
        residual: bool = False,
        step_dim: int = 0,
        mode_dim: int = 16,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(
            num_variables=num_variables,
            num_features=num_features,
            num_params=num_params,
            context_dim=context_dim,
            num_modes=num_modes,
        )
        check_sizes(width=width, depth=depth)
        inputs = self._embed_conditions(step_dim, mode_dim) + context_dim
        self.hidden = hidden_layers(inputs, width, depth, residual, dropout)
        self.residual = residual
        self.output = nn.Linear(width + (num_variables if residual else 0), num_variables * num_params)
        small_output(self.output)

    def hidden_of(self, features: Tensor, evidence: Tensor, encoded: Tensor | None, mode: Tensor | None) -> Tensor:
        hidden: Tensor = self.hidden(self._flat(features, evidence, encoded, mode))
        return torch.cat([hidden, evidence.to(hidden.dtype)], -1) if self.residual else hidden
