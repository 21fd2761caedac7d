"""Paths as tokens: each carries the value of one variable of the path and the index of the next one.

With free attention among the given variables, a row of g given and q queried variables becomes

    value    p1  ...  pg  -   p(g+1)  ...  p(g+q-1)
    target   -   ...  -  p(g+1)       ...  p(g+q)

and with causal attention

    value    -   p1  ...  p(g+q-1)
    target   p1  p2  ...  p(g+q)

so that both take g+q tokens, and the last q of them give the conditionals of the path. Variables of equal rank are
answered from the same evidence: all but the first of them get a token of their own beside the path, which no other
token sees.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class PathTokens(NamedTuple):
    """The tokens of B rows, padded at the end of each. N stands for no variable."""

    value: Tensor  # (B, T) long, the variable whose value the token carries
    target: Tensor  # (B, T) long, the variable it is to predict
    place: Tensor  # (B, T) long, how many tokens precede it on the path
    chain: Tensor  # (B, T) bool, whether the tokens after it see it
    asked: Tensor  # (B, T) bool, whether its prediction is wanted
    valid: Tensor  # (B, T) bool, whether it is a token and no padding
    given: Tensor  # (B,) long, how many variables are given


def path_tokens(ranks: Tensor, free: bool) -> PathTokens:
    """Tokens of the paths `ranks` (B, N): negative for given variables, 0, 1, ... for queried ones, N for the rest."""
    none = ranks.shape[1]
    longest = int((ranks < none).sum(1).max()) if len(ranks) else 0
    variable = ranks.argsort(dim=1, stable=True)[:, :longest]
    rank = ranks.gather(1, variable)
    valid, given = rank < none, (ranks < 0).sum(1)
    place = torch.arange(longest, device=ranks.device).expand_as(rank)
    before = _shifted(variable, none)
    asked = valid & (rank >= 0)
    tied = asked & (rank == _shifted(rank, -1))
    value, target = before, variable
    if free:
        seen = place < given[:, None]
        value = torch.where(seen, variable, before.masked_fill(place == given[:, None], none))
        target = variable.masked_fill(seen, none)
    # Padding has the value of no variable: variables that are neither given nor queried may be NaN.
    value, target = value.masked_fill(~valid, none), target.masked_fill(~valid, none)
    tokens = PathTokens(value, target, place, valid, asked & ~tied, valid, given)
    return with_side_tokens(tokens, tied) if bool(tied.any()) else tokens


def with_side_tokens(tokens: PathTokens, tied: Tensor) -> PathTokens:
    """Tokens beside the path for the `tied` (B, L), which are queried together with one before them on the path."""
    start = torch.where(tied, 0, tokens.place).cummax(1).values  # the first of each one's rank
    last = (start * tokens.valid).amax(1, keepdim=True)  # what comes after the last question is not needed
    on_path = tokens.valid & (tokens.place <= last)
    index = (~tied).to(torch.uint8).argsort(dim=1, stable=True)[:, : int(tied.sum(1).max())]
    wanted, place = tied.gather(1, index), start.gather(1, index)
    return PathTokens(
        value=torch.cat([tokens.value, tokens.value.gather(1, place)], 1),
        target=torch.cat([tokens.target, tokens.target.gather(1, index)], 1),
        place=torch.cat([tokens.place, place], 1),
        chain=torch.cat([on_path, torch.zeros_like(wanted)], 1),
        asked=torch.cat([tokens.asked, wanted], 1),
        valid=torch.cat([on_path, wanted], 1),
        given=tokens.given,
    )


def with_prefix(tokens: PathTokens, none: int) -> PathTokens:
    """With a token in front that all others see and that sees nothing but itself."""
    first = torch.zeros_like(tokens.given)[:, None]
    yes, no = first == 0, first != 0
    in_front = (first + none, first + none, first - 1, yes, no, yes)
    value, target, place, chain, asked, valid = (torch.cat(pair, 1) for pair in zip(in_front, tokens[:6], strict=True))
    return PathTokens(value, target, place, chain, asked, valid, tokens.given)


def visible(tokens: PathTokens, free: bool) -> Tensor | None:
    """Which tokens (last axis) each token sees, (B, T, T) bool; None where it is all up to itself.

    Padding sees itself, because attention to nothing is no number.
    """
    given = tokens.given[:, None]
    if bool((tokens.chain == tokens.valid).all()) and not (free and bool((given > 1).any())):
        return None
    among = tokens.chain[:, None] & (tokens.place[:, None] < tokens.place[..., None])
    if free:
        inside = (tokens.place >= 0) & (tokens.place < given) & tokens.valid
        among = among | (inside[:, None] & inside[..., None])
    return among | torch.eye(tokens.valid.shape[1], dtype=torch.bool, device=given.device)


def _shifted(columns: Tensor, first: int) -> Tensor:
    """(B, L) moved by one place to the right, `first` in front."""
    return torch.cat([torch.full_like(columns[:, :1], first), columns[:, :-1]], 1)
