"""Causal transformer in path order: all conditionals of a path in one pass, or one after another with a cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, cast, get_args

import torch
from torch import Tensor, nn

from mac_policy.common.checks import check_choice
from mac_policy.core.networks.embeddings import sinusoidal
from mac_policy.core.networks.mlp import hidden_layers
from mac_policy.core.networks.network import check_sizes, small_output
from mac_policy.core.networks.path_attention import Attend, KeyValueCache, Packing, PathBlock, RowAttention, turning
from mac_policy.core.networks.path_network import PathNetwork, PathState
from mac_policy.core.networks.path_tokens import PathTokens, path_tokens, visible, with_prefix
from mac_policy.core.networks.transformer import checked_mlp_width

GivenAttention = Literal["free", "causal"]
ContextAs = Literal["added", "token", "adaptive"]
ValueEmbedding = Literal["auto", "linear", "mlp"]


@dataclass(frozen=True)
class RowConditions:
    """What holds for a whole row, and how rows are spread over their tokens."""

    encoded: Tensor | None
    mode: Tensor | None
    spread: Callable[[Tensor], Tensor]


class PathTransformer(PathNetwork):
    """Tokens of (value, its position, the position of the next target), in path order.

    ``given``: the given variables are read ``'free'``, each seeing all others, or ``'causal'``, in the order in which
    a path would query them; then p(a, b) = p(a) p(b | a) holds exactly along the canonical order.
    ``context_as``: the context is ``'added'`` to every token, is a ``'token'`` in front, or shifts and scales the
    normalised tokens of every layer (``'adaptive'``); ``trunk_depth`` layers of ``trunk_width`` read it first.
    ``value_embedding``: values are embedded by an ``'mlp'`` of one hidden layer or a ``'linear'`` map; ``'auto'``: the
    former where a value is shown as a single number. ``rotary`` also turns keys by the positions of their values and
    queries by those of their targets, so that a target's neighbours are found sooner.

        network = PathTransformer(num_variables=250, num_features=27, num_params=27, width=768, depth=12, heads=12)
        network(features, ranks)  # (B, 250, 27), for the whole path
    """

    turns: Tensor | None

    def __init__(
        self,
        *,
        num_variables: int,
        num_features: int,
        num_params: int,
        context_dim: int = 0,
        num_modes: int = 0,
        width: int = 256,
        depth: int = 4,
        heads: int = 4,
        mlp_width: int | None = None,
        dropout: float = 0.0,
        given: GivenAttention = "free",
        context_as: ContextAs = "added",
        value_embedding: ValueEmbedding = "auto",
        trunk_width: int = 0,
        trunk_depth: int = 0,
        rotary: bool = False,
    ) -> None:
        super().__init__(
            num_variables=num_variables,
            num_features=num_features,
            num_params=num_params,
            context_dim=context_dim,
            num_modes=num_modes,
        )
        mlp_width = checked_mlp_width(mlp_width, width, depth, heads, rotary)
        check_sizes(0, trunk_depth=trunk_depth)
        check_sizes(1 if trunk_depth else 0, trunk_width=trunk_width)
        self.free = check_choice("given", given, get_args(GivenAttention)) == "free"
        self.given_in_order = not self.free
        self.context_as = check_choice("context_as", context_as, get_args(ContextAs))
        check_choice("value_embedding", value_embedding, get_args(ValueEmbedding))
        self.prefix = context_dim > 0 and context_as == "token"
        self.heads, self.dropout, self.rotary = heads, dropout, rotary
        turns = sinusoidal(torch.arange(num_variables, dtype=torch.float64), width // heads) if rotary else None
        self.register_buffer("turns", turns, persistent=False)
        by_mlp = value_embedding == "mlp" or (value_embedding == "auto" and num_features == 1)
        self.value = (
            nn.Sequential(nn.Linear(num_features, width), nn.GELU(), nn.Linear(width, width))
            if by_mlp
            else nn.Linear(num_features, width)
        )
        # One row more, for no variable.
        self.position = nn.Embedding(num_variables + 1, width)
        self.target = nn.Embedding(num_variables + 1, width)
        self.mode = nn.Embedding(num_modes, width) if num_modes > 1 else None
        wanted = 4 * width * depth if context_as == "adaptive" else width
        self.trunk = context_network(context_dim, trunk_width, trunk_depth, wanted) if context_dim else None
        self.blocks = nn.ModuleList(PathBlock(width, heads, mlp_width, dropout) for _ in range(depth))
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.output = nn.Linear(width, num_params)
        self._start(depth)

    def _start(self, depth: int) -> None:
        for table in (self.position, self.target, self.mode):
            if table is not None:
                nn.init.normal_(table.weight, std=0.02)
        if self.trunk is not None and self.context_as == "adaptive":
            for parameter in self.trunk[-1].parameters():
                nn.init.normal_(parameter, std=0.02)
        # What enters the residual stream is scaled down by its depth, so that the sum keeps unit size.
        for name, weight in self.blocks.named_parameters():
            if name.endswith(("merge.weight", "mlp.2.weight")):
                nn.init.normal_(weight, std=0.02 / (2 * depth) ** 0.5)
        small_output(self.output)

    def encode(self, context: Tensor | None) -> Tensor | None:
        self._check_context(context)
        return None if self.trunk is None else self.trunk(context)

    def forward(
        self, features: Tensor, ranks: Tensor, encoded: Tensor | None = None, mode: Tensor | None = None
    ) -> Tensor:
        self._check_path(features, ranks, encoded, mode)
        tokens = self._tokens(ranks)
        packing = Packing(tokens.valid)
        row, conditions = packing.row, RowConditions(encoded, mode, lambda rows: rows.index_select(0, packing.row))
        value, target, place, asked = map(packing.pack, (tokens.value, tokens.target, tokens.place, tokens.asked))
        hidden = self._embed(self._values(features, row, value), value, target, conditions, place)
        attend = RowAttention(packing, visible(tokens, self.free), self.heads, self.dropout if self.training else 0.0)
        hidden = self._read(hidden, self._turning(attend, value, target), conditions)
        params: Tensor = self.output(self.norm(hidden[asked]))
        out = params.new_zeros(*ranks.shape, self.num_params)
        return out.index_put((row[asked], target[asked]), params)

    def begin(
        self, features: Tensor, ranks: Tensor, encoded: Tensor | None, mode: Tensor | None, room: int
    ) -> PathState:
        self._check_path(features, ranks, encoded, mode)
        tokens = self._tokens(ranks.masked_fill(ranks >= 0, self.num_variables))
        cache = KeyValueCache(
            len(ranks), len(self.blocks), self.heads, tokens.value.shape[1] + room, self.output.weight
        )
        row = torch.arange(len(ranks), device=ranks.device)[:, None]
        if tokens.value.numel():
            conditions = _for_columns(encoded, mode)
            values = self._values(features, row, tokens.value)
            hidden = self._embed(values, tokens.value, tokens.target, conditions, tokens.place)
            attend = cache.reader(visible(tokens, self.free))
            self._read(hidden, self._turning(attend, tokens.value, tokens.target), conditions)
            cache.keep(tokens.valid)
        last = torch.full_like(row, self.num_variables)
        if not self.free and tokens.target.numel():  # the last given value is read together with the first target
            last = tokens.target.gather(1, (tokens.valid.sum(1, keepdim=True) - 1).clamp(min=0))
        return PathState(cache, self._values(features, row, last)[:, 0], last[:, 0], encoded, mode)

    def ask(self, state: PathState, targets: Tensor) -> Tensor:
        rows, new = targets.shape
        conditions = _for_columns(*(None if part is None else part[:rows] for part in (state.encoded, state.mode)))
        value = state.variable[:rows, None].expand(-1, new)
        hidden = self._embed(state.features[:rows, None], value, targets, conditions)
        attend = state.cache.reader(torch.eye(new, dtype=torch.bool, device=targets.device))
        hidden = self._read(hidden, self._turning(attend, value, targets), conditions)
        params: Tensor = self.output(self.norm(hidden))
        return params

    def tell(self, state: PathState, targets: Tensor, features: Tensor) -> None:
        rows, asked, features = len(targets), targets < self.num_variables, features.to(self.output.weight.dtype)
        state.cache.keep(asked[:, :1])
        if targets.shape[1] > 1:
            conditions = _for_columns(*(None if part is None else part[:rows] for part in (state.encoded, state.mode)))
            hidden = self._embed(features[:, :-1], targets[:, :-1], targets[:, 1:], conditions)
            attend = self._turning(state.cache.reader(None), targets[:, :-1], targets[:, 1:])
            self._read(hidden, attend, conditions)
            state.cache.keep(asked[:, 1:])
        last = asked.sum(1, keepdim=True) - 1
        state.variable[:rows] = targets.gather(1, last)[:, 0]
        state.features[:rows] = features[torch.arange(rows, device=last.device), last[:, 0]]

    def _tokens(self, ranks: Tensor) -> PathTokens:
        tokens = path_tokens(ranks, self.free)
        return with_prefix(tokens, self.num_variables) if self.prefix else tokens

    def _values(self, features: Tensor, row: Tensor, value: Tensor) -> Tensor:
        """(..., F) features of the variables `value` (...), zero where that is none."""
        found = features[row, value.clamp(max=self.num_variables - 1)]
        found = torch.where((value < self.num_variables)[..., None], found, torch.zeros_like(found))
        return found.to(self.output.weight.dtype)

    def _embed(
        self, values: Tensor, value: Tensor, target: Tensor, conditions: RowConditions, place: Tensor | None = None
    ) -> Tensor:
        hidden: Tensor = self.value(values) + self.position(value) + self.target(target)
        if self.mode is not None:
            hidden = hidden + conditions.spread(self.mode(conditions.mode))
        if self.context_as == "added" and conditions.encoded is not None:
            hidden = hidden + conditions.spread(conditions.encoded)
        if self.prefix and place is not None and conditions.encoded is not None:
            hidden = torch.where((place < 0)[..., None], conditions.spread(conditions.encoded), hidden)
        return hidden

    def _turning(self, attend: Attend, value: Tensor, target: Tensor) -> Attend:
        """Attention by the distance from the target to the values seen; a token without one has the other's place."""
        if self.turns is None:
            return attend
        none = self.num_variables
        asking = torch.where(target < none, target, value).clamp(max=none - 1)
        answering = torch.where(value < none, value, target).clamp(max=none - 1)
        return turning(attend, self.heads, self.turns[asking], self.turns[answering])

    def _read(self, hidden: Tensor, attend: Attend, conditions: RowConditions) -> Tensor:
        styles = None
        if conditions.encoded is not None and self.context_as == "adaptive":
            styles = conditions.encoded.unflatten(1, (len(self.blocks), -1))
        for layer, block in enumerate(self.blocks):
            style = None if styles is None else conditions.spread(styles[:, layer])
            hidden = cast(PathBlock, block).read(layer, hidden, attend, style)
        return hidden


def _for_columns(encoded: Tensor | None, mode: Tensor | None) -> RowConditions:
    return RowConditions(encoded, mode, lambda rows: rows[:, None])


def context_network(inputs: int, width: int, depth: int, outputs: int) -> nn.Sequential:
    """`depth` hidden layers of `width`, then a linear one."""
    if not depth:
        return nn.Sequential(nn.Linear(inputs, outputs))
    return nn.Sequential(hidden_layers(inputs, width, depth, residual=False), nn.Linear(width, outputs))
