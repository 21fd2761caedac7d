"""Bidirectional transformer over the variables: every variable is a token, seen or masked."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from mac_policy.common.checks import check_choice
from mac_policy.core.networks.embeddings import StepAndMode, rotated
from mac_policy.core.networks.network import SetNetwork, check_multiple, check_sizes, small_output

ContextAs = Literal["added", "token"]


class TransformerBlock(nn.Module):
    """Pre-norm attention among all tokens, then a GELU MLP."""

    def __init__(self, width: int, heads: int, mlp_width: int, dropout: float, rotary: bool = False) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.rotary = rotary
        self.norm_attention = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.merge = nn.Linear(width, width)
        self.norm_mlp = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, mlp_width), nn.GELU(), nn.Linear(mlp_width, width), nn.Dropout(dropout)
        )

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens + self._attend(self.norm_attention(tokens))
        out: Tensor = tokens + self.mlp(self.norm_mlp(tokens))
        return out

    def _attend(self, tokens: Tensor) -> Tensor:
        batch, length, width = tokens.shape
        qkv = self.qkv(tokens).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # each (B, heads, L, width / heads)
        if self.rotary:
            q, k = rotated(q), rotated(k)
        mixed = scaled_dot_product_attention(q, k, v, dropout_p=self.dropout if self.training else 0.0)
        out: Tensor = self.merge(mixed.transpose(1, 2).reshape(batch, length, width))
        return out


class Transformer(SetNetwork):
    """Pre-norm bidirectional transformer with learned positions.

    A seen variable enters as its projected features, an unseen one as the mask token, which is a learned
    input and no output class; both with an embedding of the evidence bit. The step (share of variables seen)
    and the mode are embedded and added to every token. The context is projected once in ``encode`` and either
    added to every token or put in front as a token of its own. ``rotary`` also turns queries and keys by their
    positions: not in the papers' networks, but where training is short the neighbourhood is found sooner.

        network = Transformer(num_variables=250, num_features=27, num_params=27, width=768, depth=12, heads=12)
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
        depth: int = 4,
        heads: int = 4,
        mlp_width: int | None = None,
        dropout: float = 0.0,
        context_as: ContextAs = "added",
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
        self.context_as = check_choice("context_as", context_as, get_args(ContextAs))
        self.value = nn.Linear(num_features, width)
        self.mask_token = nn.Parameter(0.02 * torch.randn(width))
        self.position = nn.Parameter(0.02 * torch.randn(num_variables, width))
        self.bit = nn.Embedding(2, width)
        self.conditions = StepAndMode(width, num_modes)
        self.context = nn.Linear(context_dim, width) if context_dim else None
        self.blocks = nn.Sequential(*(TransformerBlock(width, heads, mlp_width, dropout, rotary) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, num_params)
        self._start(depth)

    def _start(self, depth: int) -> None:
        nn.init.normal_(self.bit.weight, std=0.02)
        # What enters the residual stream is scaled down by its depth, so that the sum keeps unit size.
        for name, weight in self.blocks.named_parameters():
            if name.endswith(("merge.weight", "mlp.2.weight")):
                nn.init.normal_(weight, std=0.02 / (2 * depth) ** 0.5)
        small_output(self.output)

    def encode(self, context: Tensor | None) -> Tensor | None:
        self._check_context(context)
        return None if self.context is None else self.context(context)

    def forward(
        self, features: Tensor, evidence: Tensor, encoded: Tensor | None = None, mode: Tensor | None = None
    ) -> Tensor:
        visible = self._visible(features, evidence, encoded, mode)
        tokens = torch.where(evidence[..., None], self.value(visible), self.mask_token)
        tokens = tokens + self.position + self.bit(evidence.long())
        tokens = tokens + self.conditions(evidence, mode)[:, None]
        if encoded is not None and self.context_as == "added":
            tokens = tokens + encoded[:, None]
        if encoded is not None and self.context_as == "token":
            tokens = torch.cat([encoded[:, None], tokens], 1)
        hidden = self.blocks(tokens)[:, -self.num_variables :]
        out: Tensor = self.output(self.norm(hidden))
        return out


def checked_mlp_width(mlp_width: int | None, width: int, depth: int, heads: int, rotary: bool) -> int:
    """The width of the MLPs, by default 4 * width; a ValueError for sizes that attention cannot have."""
    mlp_width = 4 * width if mlp_width is None else mlp_width
    check_sizes(width=width, depth=depth, heads=heads, mlp_width=mlp_width)
    check_multiple("width", width, "heads", heads)
    if rotary:
        check_multiple("width", width, "two for each head", 2 * heads)
    return mlp_width
