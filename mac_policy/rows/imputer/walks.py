"""Walks of the ensemble along paths: draws, each by one member, and densities by all members.

A step asks for one variable of each row alone, and the joint Gaussians learn its value without a new factorisation.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mac_policy.rows.imputer.linear import Belief
from mac_policy.rows.imputer.members import Ensemble, mixture_params, widened


class Walk:
    """Rows (M, B) of each member, whose variables become known one after another.

    dims, seen (M, B, D): the dimensions that are read and which of them are known; belief: of the joint Gaussians.
    """

    def __init__(self, ensemble: Ensemble, dims: Tensor, seen: Tensor, belief: Belief) -> None:
        self.ensemble, self.members, self.head = ensemble, ensemble.members, ensemble.members.encoding.head
        self.dims, self.seen, self.belief = dims, seen, belief
        self.sizes = torch.tensor(self.members.encoding.classes)
        shape = (self.members.num_variables, self.members.num_outputs)
        self.weight = self.members.last.weight.unflatten(-1, shape).transpose(1, 2)  # (M, N, W, P)
        self.bias = self.members.last.bias.unflatten(-1, shape)  # (M, N, P)

    @staticmethod
    def begin(ensemble: Ensemble, x: Tensor, evidence: Tensor) -> Walk:
        """Given the encoded values x (M, B, N) at `evidence` (M, B, N)."""
        encoding = ensemble.members.encoding
        dims, seen = encoding(encoding.head.features(torch.where(evidence, x, 0.0)), evidence)
        return Walk(ensemble, dims, seen, ensemble.members.joint.belief(dims, seen))

    def first(self, rows: int) -> Walk:
        """The first rows of each member: a view."""
        return Walk(self.ensemble, self.dims[:, :rows], self.seen[:, :rows], self.belief.first(rows))

    def params(self, variables: Tensor) -> Tensor:
        """The numbers (M, B, P) from which `head` makes the calibrated conditional of a variable (M, B) of each row."""
        mean, std = self.belief.mean.to(self.dims.dtype), self.belief.std.to(self.dims.dtype)
        hidden = self.members.hidden(self.dims, self.seen, mean, std)
        out = self._last(hidden, variables)
        found = out.new_zeros(*variables.shape, self.head.num_params)
        for size in self.sizes.unique().tolist():
            rows = self.sizes[variables] == size
            if size == 0 and bool(rows.any()):
                found[rows] = self._padded(self._mixtures(out[rows], mean[rows], std[rows], variables[rows]))
        for variable, dims in self.members.categories:
            rows = variables == variable
            if bool(rows.any()):
                linear = self.members.linear_logits(self.belief, dims)[rows]
                logits = self.members.class_logits(out[rows], linear, dims) / self.ensemble.heat
                found[rows] = self._padded(logits)
        return found

    def learn(self, variables: Tensor, values: Tensor, where: Tensor) -> None:
        """Take the value (M, B) of a variable (M, B) of each row as known, `where` (M, B) true."""
        shown = self.head.features(values, variables)  # (M, B, F)
        encoding = self.members.encoding
        where = where & encoding.is_believed(shown[..., 0], variables)
        begins, sizes = self.members.begins[variables], self.sizes[variables].clamp_min(1)
        for slot in range(int(sizes.max())):
            now = where & (slot < sizes)
            dims = torch.where(now, begins + slot, begins)
            read = encoding.standard(shown[..., slot], dims)
            self.belief.observe(dims, read.to(self.belief.mean.dtype), now)
            at = dims[..., None]
            self.dims.scatter_(-1, at, torch.where(now[..., None], read[..., None], self.dims.gather(-1, at)))
            self.seen.scatter_(-1, at, now[..., None] | self.seen.gather(-1, at))

    def _last(self, hidden: Tensor, variables: Tensor) -> Tensor:
        """The last layer's numbers (M, B, P) of one variable of each row."""
        if bool((variables == variables[0, 0]).all()):
            variable = int(variables[0, 0])
            return torch.baddbmm(self.bias[:, None, variable], hidden, self.weight[:, variable])
        member = torch.arange(len(hidden))[:, None]
        found: Tensor = (hidden[..., None, :] @ self.weight[member, variables])[..., 0, :] + self.bias[
            member, variables
        ]
        return found

    def _mixtures(self, out: Tensor, mean: Tensor, std: Tensor, variables: Tensor) -> Tensor:
        dims = self.members.begins[variables]
        at = dims[:, None]
        logits, means, log_stds = self.members.mixture(out, mean.gather(1, at)[:, 0], std.gather(1, at)[:, 0], dims)
        return mixture_params(*widened((logits.log_softmax(-1), means, log_stds), self.ensemble.widening[variables]))

    def _padded(self, params: Tensor) -> Tensor:
        return torch.nn.functional.pad(params, (0, self.head.num_params - params.shape[-1]))


@torch.no_grad()
def drawn(ensemble: Ensemble, x: Tensor, ranks: Tensor, generator: torch.Generator | None) -> Tensor:
    """x (R, N) with every variable of rank 0, 1, ... drawn in this order (R, N), given those of rank -1.

    Each row is drawn by one member, chosen at random. Rows with many variables to draw come first, so that the others
    leave the walk when they are done.
    """
    given, asked = ranks < 0, (ranks >= 0) & (ranks < ranks.shape[1])
    rows = dealt(asked.sum(1), ensemble.members.count, generator)
    lengths = torch.where(rows < 0, 0, asked.sum(1)[rows])
    values, path = x[rows], ranks.masked_fill(given, ranks.shape[1]).argsort(1)[rows]  # of the queried variables first
    walk = Walk.begin(ensemble, values, given[rows])
    for step in range(int(lengths.max())):
        where = lengths[:, : int((lengths > step).any(0).sum())] > step
        walk = walk.first(where.shape[1])
        variables, here = path[:, : where.shape[1], step], values[:, : where.shape[1]]
        found = walk.head(walk.params(variables), variables, generator).sample(generator=generator).to(values.dtype)
        at = variables[..., None]
        here.scatter_(-1, at, torch.where(where[..., None], found[..., None], here.gather(-1, at)))
        walk.learn(variables, found, where)
    out = x.clone()
    out[rows[rows >= 0]] = values[rows >= 0]
    return out


def dealt(lengths: Tensor, members: int, generator: torch.Generator | None) -> Tensor:
    """Rows with these numbers of steps (R,), dealt to the members at random, the longest first: (M, B), -1 for no row.

    >>> from mac_policy.rows.imputer.walks import dealt
    >>> dealt(torch.tensor([1, 3, 2]), 2, None).tolist()
    [[1, 0], [2, -1]]
    """
    shuffled = torch.randperm(len(lengths), generator=generator)
    order = shuffled[lengths[shuffled].argsort(descending=True, stable=True)]
    return torch.nn.functional.pad(order, (0, -len(lengths) % members), value=-1).view(-1, members).T


@torch.no_grad()
def log_density(ensemble: Ensemble, x: Tensor, observed: Tensor, order: Tensor) -> Tensor:
    """log p(x_observed) (R,) along an order (N,) of the variables, by the mixture of all members at each step."""
    count, rows = ensemble.members.count, len(x)
    values, nothing = x.expand(count, *x.shape), torch.zeros(count, *x.shape, dtype=torch.bool)
    walk, total = Walk.begin(ensemble, values, nothing), x.new_zeros(rows)
    for variable in order.tolist():
        variables = torch.full((count, rows), variable)
        where = observed[:, variable].expand(count, rows)
        if not bool(where.any()):
            continue
        each = walk.head(walk.params(variables), variables).log_prob(values[..., variable])
        total += torch.where(where[0], each.logsumexp(0) - math.log(count), 0.0)
        walk.learn(variables, values[..., variable], where)
    return total
