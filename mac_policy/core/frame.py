"""Where the conditionals of real variables lie, relative to what a network says."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from mac_policy.core.heads import Head


class Frame(NamedTuple):
    """The location of variable i in row b is ``shift[b, i] + scale[i] * (what the network says)``.

    Values, evidence and spreads stay in the units of the variable: a frame moves where a conditional lies and changes
    no density by a Jacobian. A network that says where a robot is to go in place of how far it is to move uses one.

    >>> import torch
    >>> Frame(torch.zeros(2, 3), torch.ones(3)).rows(torch.tensor([1])).shift.shape
    torch.Size([1, 3])
    """

    shift: Tensor  # (B, N)
    scale: Tensor  # (N,)

    def rows(self, rows: Tensor) -> Frame:
        return Frame(self.shift[rows], self.scale)

    def repeat(self, times: int) -> Frame:
        """Each row `times` times, one after another."""
        return Frame(self.shift.repeat_interleave(times, 0), self.scale)

    def to_location(self, said: Tensor) -> Tensor:
        """(B, N) what a network says -> values."""
        return self.shift + self.scale * said

    def from_location(self, values: Tensor) -> Tensor:
        """The inverse of `to_location`, for values (B, N) or (B, S, N)."""
        shift = self.shift if values.ndim == self.shift.ndim else self.shift[:, None]
        return (values - shift) / self.scale


def framed(head: Head, params: Tensor, frame: Frame | None, rows: Tensor | slice, variables: Tensor | int) -> Tensor:
    """The head's parameters (A, P) of these rows and variables, moved by the frame."""
    if frame is None:
        return params
    return head.moved(params, frame.shift[rows, variables], frame.scale[variables], variables)


def framed_all(head: Head, params: Tensor, frame: Frame | None) -> Tensor:
    """The head's parameters (B, N, P) of all variables, moved by the frame."""
    return params if frame is None else head.moved(params, frame.shift, frame.scale)
