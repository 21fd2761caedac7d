"""Head for variables of different kinds: each has a univariate family of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from mac_policy.core.checks import check_entries
from mac_policy.core.heads.continuous import MixtureConditional
from mac_policy.core.heads.head import Conditional, Head, at_least_float32


class MixedConditional:
    """Univariate distributions of several families; ``family`` (...) says which one each entry belongs to.

    Values of discrete families are floating-point whole numbers, so that one tensor holds all variables.
    """

    def __init__(self, family: Tensor, parts: Sequence[tuple[Tensor, Conditional]], like: Tensor) -> None:
        self.family = family  # (...)
        self.parts = parts
        self._like = like

    @property
    def batch_shape(self) -> torch.Size:
        return self.family.shape

    def log_prob(self, x: Tensor) -> Tensor:
        x = x.expand(self.family.shape)
        return self._join(lambda where, conditional: conditional.log_prob(x[where]))

    def sample(self, temperature: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
        return self._join(lambda where, conditional: conditional.sample(temperature, generator))

    @property
    def mode(self) -> Tensor:
        return self._join(lambda where, conditional: conditional.mode)

    @property
    def mean(self) -> Tensor:
        """Each family's own mean; that of categories is the mean of their numbers, which says little."""
        return self._join(lambda where, conditional: conditional.mean)

    def log_prob_grid(self, points: Tensor) -> Tensor:
        return self._join(lambda where, conditional: conditional.log_prob_grid(points), points.shape)

    def _join(self, answer: Callable[[Tensor, Conditional], Tensor], last: torch.Size | tuple[int, ...] = ()) -> Tensor:
        """The answers of all families, each in the places of its entries, ``(..., *last)``."""
        out = self._like.new_zeros(*self.family.shape, *last)
        for where, conditional in self.parts:
            out = out.masked_scatter(
                where.view(*where.shape, *(1 for _ in last)).expand_as(out), answer(where, conditional).to(out.dtype)
            )
        return out


class Mixed(Head):
    """Variable i has the family ``heads[which[i]]``: real variables beside categories with any number of classes.

    A network gives ``num_params`` numbers for each variable, of which a family reads the first ones it needs; an
    observed value is shown as ``num_features`` numbers, zero beyond those of its family. Categories are 0, 1, ... as
    floating-point numbers.

    >>> import torch
    >>> from mac_policy.core.heads import Categorical, GaussianMixture, Mixed
    >>> head = Mixed([GaussianMixture(3), Categorical(4)], which=[0, 0, 1])  # two real variables, one category of four
    >>> head(torch.zeros(1, 3, head.num_params)).mode.shape
    torch.Size([1, 3])
    """

    discrete = False
    allowed = "a value of its variable's own family"
    which: Tensor

    def __init__(self, heads: Sequence[Head], which: Sequence[int]) -> None:
        super().__init__()
        if not heads or any(head.num_turns > 1 for head in heads):
            raise ValueError("heads must be one or more heads that answer one variable at a time")
        if not which or any(not 0 <= int(i) < len(heads) for i in which):
            raise ValueError(
                f"which must name a head 0..{len(heads) - 1} for every variable, got {[int(i) for i in which]}"
            )
        self.heads = nn.ModuleList(heads)
        self.register_buffer("which", torch.tensor([int(i) for i in which]), persistent=False)
        names = self.which.tolist()
        self._columns = [[n for n, family in enumerate(names) if family == i] for i in range(len(heads))]
        self.num_params = max(head.num_params for head in heads)
        self.num_features = max(head.num_features for head in heads)

    def family(self, shape: torch.Size, variables: Tensor | None) -> Tensor:
        """``(...)`` the head of each entry; without `variables` the last axis runs over all of them."""
        if variables is not None:
            return self.which[variables].expand(shape)
        if shape[-1:] != self.which.shape:
            raise ValueError(f"the last axis must hold {len(self.which)} variables, got shape {tuple(shape)}")
        return self.which.expand(shape)

    def head_of(self, variable: int) -> Head:
        """The family of one variable."""
        return self._families()[int(self.which[variable])]

    def _families(self) -> list[Head]:
        return cast("list[Head]", list(self.heads))

    def features(self, x: Tensor, variables: Tensor | None = None) -> Tensor:
        x = at_least_float32(x)
        out = x.new_zeros(*x.shape, self.num_features)
        if variables is None:  # whole columns
            self.family(x.shape, None)
            for columns, head in zip(self._columns, self._families(), strict=True):
                out[..., columns, : head.num_features] = head.features(x[..., columns]).to(out.dtype)
            return out
        family = self.family(x.shape, variables)
        for i, head in enumerate(self._families()):
            where = family == i
            shown = head.features(x[where])
            out[where] = nn.functional.pad(shown, (0, self.num_features - head.num_features)).to(out.dtype)
        return out

    def forward(
        self, params: Tensor, variables: Tensor | None = None, generator: torch.Generator | None = None
    ) -> Conditional:
        """Variables of one family have the conditional of their family."""
        params = self._read(params)
        if variables is not None and (variables.ndim == 0 or self._is_one_family(variables)):
            head = self.head_of(int(variables.reshape(-1)[0]))
            return head(params[..., : head.num_params], variables=variables, generator=generator)
        shape = params.shape[:-1]
        family = self.family(shape, variables)
        each = (torch.arange(shape[-1], device=params.device) if variables is None else variables).expand(shape)
        parts = []
        for i, head in enumerate(self._families()):
            where = family == i
            own = params[where][..., : head.num_params]
            parts.append((where, head(own, variables=each[where], generator=generator)))
        return MixedConditional(family, parts, params)

    def _is_one_family(self, variables: Tensor) -> bool:
        families = self.which[variables]
        return families.numel() > 0 and bool((families == families.reshape(-1)[0]).all())

    def moved(self, params: Tensor, shift: Tensor, scale: Tensor, variables: Tensor | int | None = None) -> Tensor:
        """Only the families of real values are moved."""
        params = self._read(params)
        which = None if variables is None else torch.as_tensor(variables, device=params.device)
        family, out = self.family(params.shape[:-1], which), params.clone()
        for i, head in enumerate(self._families()):
            if not head.discrete:
                where = family == i
                part = head.moved(params[where][..., : head.num_params], shift[where], scale.expand(where.shape)[where])
                out[where] = nn.functional.pad(part, (0, self.num_params - head.num_params))
        return out

    def loss(
        self,
        params: Tensor,
        x: Tensor,
        generator: torch.Generator | None = None,
        variables: Tensor | None = None,
    ) -> Tensor:
        """Each family has its own training loss."""
        if all(type(head).loss is Head.loss for head in self._families()):
            return super().loss(params, x, generator, variables)
        params = self._read(params)
        shape = params.shape[:-1]
        family = self.family(shape, variables)
        each = (torch.arange(shape[-1], device=params.device) if variables is None else variables).expand(shape)
        out = params.new_zeros(shape)
        for i, head in enumerate(self._families()):
            where = family == i
            own = params[where][..., : head.num_params]
            out[where] = head.loss(own, x.expand(shape)[where], generator, each[where])
        return out

    def valid(self, x: Tensor, variables: Tensor | None = None) -> Tensor:
        family = self.family(x.shape, variables)
        good = torch.zeros_like(x, dtype=torch.bool)
        for i, head in enumerate(self._families()):
            where = family == i
            good[where] = head.valid(x[where])
        return good

    def check(self, x: Tensor, where: Tensor) -> None:
        bad = where & ~self.valid(x)
        if bool(bad.any()):
            check_entries("x", x, bad, self.head_of(int(bad.nonzero()[0, -1])).allowed)

    def extra_repr(self) -> str:
        return f"which={self.which.tolist()}"


def real_part(conditional: Conditional, number: int, family: int = 0) -> MixtureConditional:
    """The mixtures of Gaussians (B, number) of the variables of one family, of conditionals (B, N)."""
    if isinstance(conditional, MixtureConditional):
        return conditional
    part = cast("MixedConditional", conditional).parts[family][1]
    shape = (conditional.batch_shape[0], number)
    names = ("log_weights", "means", "log_stds")
    return MixtureConditional(*(getattr(part, name).unflatten(0, shape) for name in names))
