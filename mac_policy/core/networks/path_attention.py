"""Attention along paths: over whole rows of different length, or of new tokens to those kept from before."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from mac_policy.core.networks.embeddings import turned
from mac_policy.core.networks.transformer import TransformerBlock

Attend = Callable[[int, Tensor], Tensor]
"""Layer and (..., 3 W) queries, keys and values of its tokens -> (..., W)."""


class PathBlock(TransformerBlock):
    """The block of the set transformer, told by its caller how to attend and, with `shift_scale`, how to normalise.

    Its norms have no weights of their own: the linear maps behind them can do what those would.
    """

    def __init__(self, width: int, heads: int, mlp_width: int, dropout: float) -> None:
        super().__init__(width, heads, mlp_width, dropout)
        self.norm_attention = nn.LayerNorm(width, elementwise_affine=False)
        self.norm_mlp = nn.LayerNorm(width, elementwise_affine=False)

    def read(self, layer: int, tokens: Tensor, attend: Attend, shift_scale: Tensor | None) -> Tensor:
        """``(..., W)`` tokens; ``shift_scale`` (..., 4 W): shift and scale after each of the two norms."""
        parts = (None,) * 4 if shift_scale is None else shift_scale.chunk(4, -1)
        tokens = tokens + self.merge(attend(layer, self.qkv(styled(self.norm_attention(tokens), *parts[:2]))))
        out: Tensor = tokens + self.mlp(styled(self.norm_mlp(tokens), *parts[2:]))
        return out


def styled(normed: Tensor, shift: Tensor | None, scale: Tensor | None) -> Tensor:
    return normed if shift is None or scale is None else normed * (1 + scale) + shift


class Packing:
    """Between the tokens that there are (T, ...) and rows padded to the longest (B, L, ...)."""

    def __init__(self, valid: Tensor) -> None:
        self.shape = valid.shape
        self.full = bool(valid.all())
        self.kept = valid.flatten().nonzero()[:, 0]
        self.row = self.kept // max(valid.shape[1], 1)  # (T,) the row of each token

    def pack(self, padded: Tensor) -> Tensor:
        flat = padded.flatten(0, 1)
        return flat if self.full else flat.index_select(0, self.kept)

    def pad(self, packed: Tensor) -> Tensor:
        if not self.full:
            empty = packed.new_zeros(self.shape.numel(), *packed.shape[1:])
            packed = empty.index_copy(0, self.kept, packed)
        return packed.view(*self.shape, *packed.shape[1:])


class RowAttention:
    """Attention inside whole rows. Everything else of a layer works on packed tokens: padding costs only here."""

    def __init__(self, packing: Packing, mask: Tensor | None, heads: int, dropout: float) -> None:
        self.packing, self.heads, self.dropout = packing, heads, dropout
        self.mask = None if mask is None else mask[:, None]

    def __call__(self, layer: int, qkv: Tensor) -> Tensor:
        q, k, v = split_heads(self.packing.pad(qkv), self.heads)
        mixed = attention(q, k, v, self.mask, is_causal=self.mask is None, dropout=self.dropout)
        return self.packing.pack(mixed.transpose(1, 2).flatten(2))


class KeyValueCache:
    """Keys and values (B, heads, room, W / heads) of every layer; `used` columns of `room` are filled.

    What is read is written behind the filled columns; `keep` says which of it stays. Rows that need no more tokens
    come last: reading b rows reads the first b.
    """

    def __init__(self, rows: int, layers: int, heads: int, room: int, like: Tensor) -> None:
        size = like.shape[-1] // heads
        self.keys, self.values = ([like.new_zeros(rows, heads, room, size) for _ in range(layers)] for _ in range(2))
        self.seen = torch.zeros(rows, room, dtype=torch.bool, device=like.device)
        self.used = 0
        self.dense = True  # every filled column is one that every row sees
        self.heads = heads

    def reader(self, among: Tensor | None) -> Attend:
        """How m new tokens attend: to all that is kept and to each other by `among` (b, m, m), None being causal."""

        def attend(layer: int, qkv: Tensor) -> Tensor:
            q, k, v = split_heads(qkv, self.heads)
            rows, end = len(qkv), self.used + qkv.shape[1]
            self.keys[layer][:rows, :, self.used : end] = k
            self.values[layer][:rows, :, self.used : end] = v
            keys, values = self.keys[layer][:rows, :, :end], self.values[layer][:rows, :, :end]
            mixed = attention(q, keys, values, self._mask(qkv, among))
            return mixed.transpose(1, 2).flatten(2)

        return attend

    def keep(self, valid: Tensor) -> None:
        """The first columns of what was read last, where `valid` (b, k)."""
        self.seen[: len(valid), self.used : self.used + valid.shape[1]] = valid
        self.used += valid.shape[1]
        self.dense = self.dense and bool(valid.all())

    def select(self, rows: Tensor) -> None:
        """Keep these rows, in this order; a row may be there more than once."""
        self.keys, self.values = ([part.index_select(0, rows) for part in kind] for kind in (self.keys, self.values))
        self.seen = self.seen.index_select(0, rows)

    def _mask(self, qkv: Tensor, among: Tensor | None) -> Tensor | None:
        rows, new = qkv.shape[:2]
        if new == 1 and self.dense:
            return None
        if among is None:
            among = torch.ones(new, new, dtype=torch.bool, device=qkv.device).tril()
        kept = self.seen[:rows, None, : self.used].expand(-1, new, -1)
        return torch.cat([kept, among.expand(rows, new, new)], 2)[:, None]


def attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, is_causal: bool = False, dropout: float = 0.0
) -> Tensor:
    """(B, heads, L, D) of each; as torch's own, which on a CPU in bfloat16 takes several times as long to train."""
    rough = torch.is_autocast_enabled("cpu") or q.dtype == torch.bfloat16
    if q.device.type != "cpu" or not rough or not torch.is_grad_enabled():
        return scaled_dot_product_attention(q, k, v, mask, dropout_p=dropout, is_causal=is_causal)
    if is_causal:
        mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril()
    scores = q @ k.transpose(2, 3) * q.shape[3] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return nn.functional.dropout(scores.softmax(-1), dropout) @ v


def turning(attend: Attend, heads: int, asking: Tensor, answering: Tensor) -> Attend:
    """The same attention with queries and keys turned by `asking` and `answering` (..., W / heads)."""

    def attend_turned(layer: int, qkv: Tensor) -> Tensor:
        q, k, v = qkv.unflatten(-1, (3, heads, -1)).unbind(-3)
        q, k = turned(q, asking[..., None, :]), turned(k, answering[..., None, :])
        return attend(layer, torch.stack([q, k, v], -3).flatten(-3))

    return attend_turned


def split_heads(qkv: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """(B, L, 3 W) to queries, keys and values (B, heads, L, W / heads)."""
    q, k, v = qkv.unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
    return q, k, v
