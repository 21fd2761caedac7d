"""The linear part of the Imputer: a joint Gaussian of all dimensions, fitted to incomplete rows by EM.

Its covariance is W W' + diag(psi), so that the conditional of any dimensions given any others costs one small
factorisation a row: the latent z of x = mean + W z + noise has the posterior precision I + W_e' psi_e^-1 W_e.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from mac_policy.common.folders import Checked

FULL_RANK = 40  # up to this many dimensions the covariance has full rank
RANK = 32  # of the covariance of more dimensions
PRIOR_ROWS = 1.0  # rows of unit covariance that the fit adds: a dimension that equals another keeps a variance
ROUNDS = 40
TOLERANCE = 1e-3
ENTRIES = 2_000_000  # of the matrices that are factorised together
LEAST_VARIANCE = 1e-6
FIT_ROWS = 20_000


class JointGaussian(Checked, nn.Module):
    """Gaussians of M members over D dimensions: mean (M, D), loadings W (M, D, k), noise variances psi (M, D)."""

    mean: Tensor
    loadings: Tensor
    noise: Tensor

    def __init__(self, parts: list[tuple[Tensor, Tensor, Tensor]]) -> None:
        super().__init__()
        mean, loadings, noise = (torch.stack(each) for each in zip(*parts, strict=True))
        self.register_buffer("mean", mean)
        self.register_buffer("loadings", loadings)
        self.register_buffer("noise", noise)

    def check(self) -> None:
        if not bool((self.noise > 0).all()):
            raise ValueError("the noise of the joint Gaussian must be above 0")

    @torch.no_grad()
    def forward(self, x: Tensor, evidence: Tensor) -> Conditionals:
        """The conditionals of every dimension given x (M, B, D) at `evidence`."""
        latent, factor = self._latent(x, evidence)
        members, rows, dims = x.shape
        right = self.loadings.mT[:, None].expand(members, rows, -1, dims)
        roots = torch.linalg.solve_triangular(factor, right, upper=False)
        return Conditionals(self._mean(latent), (self.noise[:, None] + roots.square().sum(-2)).sqrt(), roots, self)

    def prior_covariance(self, dims: slice) -> Tensor:
        """(M, d, d) of some dimensions, given nothing."""
        part = self.loadings[:, dims]
        return part @ part.mT + torch.diag_embed(self.noise[:, dims])

    @torch.no_grad()
    def belief(self, x: Tensor, evidence: Tensor) -> Belief:
        """The same conditionals, to be updated when further values become known."""
        latent, factor = self._latent(x, evidence)
        covariance = torch.cholesky_inverse(factor)
        spread = torch.einsum("mbij,mdi,mdj->mbd", covariance, self.loadings, self.loadings)
        return Belief(self, self._mean(latent), self.noise[:, None] + spread, covariance)

    def _mean(self, latent: Tensor) -> Tensor:
        return self.mean[:, None] + torch.bmm(latent, self.loadings.mT)

    def _latent(self, x: Tensor, evidence: Tensor) -> tuple[Tensor, Tensor]:
        """The mean of z given x at `evidence` (M, B, k), and the factor of its precision (M, B, k, k)."""
        w, seen = self.loadings, evidence.to(self.mean.dtype)
        scaled = w / self.noise[..., None]
        outer = (w[..., :, None] * scaled[..., None, :]).flatten(2)
        rank = w.shape[-1]
        precision = torch.bmm(seen, outer).view(*x.shape[:2], rank, rank)
        factor = torch.linalg.cholesky(precision + torch.eye(rank, dtype=w.dtype, device=w.device))
        off = torch.where(evidence, x.to(w.dtype) - self.mean[:, None], 0.0)
        return torch.cholesky_solve(torch.bmm(off, scaled)[..., None], factor)[..., 0], factor


class Conditionals(NamedTuple):
    """mean, std (M, B, D); roots (M, B, k, D): the covariance of two dimensions is the product of their columns, the
    variance of one that product and its noise."""

    mean: Tensor
    std: Tensor
    roots: Tensor
    joint: JointGaussian

    def covariance_of(self, dims: slice) -> Tensor:
        """(M, B, d, d) of some dimensions."""
        part = self.roots[..., dims]
        return part.mT @ part + torch.diag_embed(self.joint.noise[:, None, dims])


class Belief:
    """The conditionals of all dimensions of (M, B) rows given what is known so far.

    A further value moves them by a step of a Kalman filter: k^2 + D k operations a row and not the D k^2 of a new
    factorisation. mean, variance (M, B, D); covariance of z (M, B, k, k).
    """

    def __init__(self, joint: JointGaussian, mean: Tensor, variance: Tensor, covariance: Tensor) -> None:
        self.joint, self.mean, self.variance, self.covariance = joint, mean, variance, covariance

    @property
    def std(self) -> Tensor:
        return torch.maximum(self.variance, self.joint.noise[:, None]).sqrt()

    def covariance_of(self, dims: slice) -> Tensor:
        """(M, B, d, d) of some dimensions."""
        part = self.joint.loadings[:, None, dims]
        return part @ self.covariance @ part.mT + torch.diag_embed(self.joint.noise[:, None, dims])

    def first(self, rows: int) -> Belief:
        """The first rows of each member, (M, rows): a view."""
        parts = (part[:, :rows] for part in (self.mean, self.variance, self.covariance))
        return Belief(self.joint, *parts)

    def observe(self, dims: Tensor, values: Tensor, where: Tensor) -> None:
        """Learn a value (M, B) of the dimension `dims` (M, B) of each row, `where` (M, B) true."""
        member = torch.arange(len(dims), device=dims.device)[:, None]
        moved = (self.covariance @ self.joint.loadings[member, dims][..., None])[..., 0] * where[..., None]
        along = torch.bmm(moved, self.joint.loadings.mT)  # covariance with the value, (M, B, D)
        at = dims[..., None]
        variance = along.gather(-1, at) + self.joint.noise[member, dims][..., None]
        off = values[..., None] - self.mean.gather(-1, at)
        self.mean += along * (off / variance)
        self.variance -= along.square() / variance
        self.covariance -= moved[..., :, None] * (moved / variance)[..., None, :]


@torch.no_grad()
def fit_gaussian(x: Tensor, observed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean (D,), loadings (D, k) and noise variances (D,) of standardised rows x (R, D) with missing values.

    >>> import torch
    >>> from mac_policy.rows.imputer.linear import JointGaussian, fit_gaussian
    >>> z = torch.randn(500, 1, generator=torch.Generator().manual_seed(0)).double()
    >>> x = z.expand(500, 2)
    >>> joint = JointGaussian([fit_gaussian(x, torch.ones(500, 2, dtype=torch.bool))])
    >>> mean, std, *_ = joint(torch.ones(1, 1, 2).double(), torch.tensor([[[True, False]]]))
    >>> abs(float(mean[0, 0, 1]) - 1) < 0.01
    True
    """
    x, observed = torch.where(observed, x, 0.0)[:FIT_ROWS].double(), observed[:FIT_ROWS].double()
    if x.shape[1] > FULL_RANK:
        return _factor_analysis(x, observed)
    mean, covariance = _covariance(x, observed)
    values, vectors = torch.linalg.eigh(covariance)
    noise = 0.5 * values[0].clamp_min(LEAST_VARIANCE)
    return mean, vectors * (values - noise).clamp_min(0).sqrt(), noise.expand(len(mean)).clone()


def _covariance(x: Tensor, observed: Tensor) -> tuple[Tensor, Tensor]:
    """The mean and covariance of highest posterior density, by EM."""
    rows, dims = x.shape
    mean, covariance = x.new_zeros(dims), torch.eye(dims, dtype=x.dtype)
    for _ in range(ROUNDS):
        total, square = torch.zeros_like(mean), PRIOR_ROWS * torch.eye(dims, dtype=x.dtype)
        for part, seen in zip(*(each.split(max(16, ENTRIES // dims**2)) for each in (x, observed)), strict=True):
            unseen = 1 - seen
            factor = torch.linalg.cholesky(covariance * seen[:, :, None] * seen[:, None, :] + torch.diag_embed(unseen))
            gain = torch.linalg.solve_triangular(factor, covariance * seen[:, :, None], upper=False)
            off = torch.linalg.solve_triangular(factor, ((part - mean) * seen)[..., None], upper=False)
            filled = torch.where(seen > 0, part, mean + (gain.mT @ off)[..., 0])
            left = (covariance - gain.mT @ gain) * unseen[:, :, None] * unseen[:, None, :]
            total += filled.sum(0)
            square += filled.T @ filled + left.sum(0)
        new_mean = total / rows
        new = (square - rows * torch.outer(new_mean, new_mean)) / (rows + PRIOR_ROWS)
        change = (new - covariance).abs().max()
        mean, covariance = new_mean, new
        if change < TOLERANCE:
            break
    return mean, covariance


def _factor_analysis(x: Tensor, observed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same with a covariance of low rank: EM over the latent z of each row, one regression on z a dimension."""
    rows, dims = x.shape
    count = observed.sum(0)
    pairs = (observed.T @ observed).clamp_min(1)
    values, vectors = torch.linalg.eigh(x.T @ x / pairs)
    values, vectors = values[-RANK:], vectors[:, -RANK:]
    loadings, mean = vectors * values.clamp_min(LEAST_VARIANCE).sqrt(), x.new_zeros(dims)
    noise = (1 - loadings.square().sum(1)).clamp_min(0.05)
    one = torch.eye(RANK, dtype=x.dtype)
    prior = torch.diag_embed(torch.cat([x.new_full((RANK,), PRIOR_ROWS), x.new_zeros(1)]))
    for _ in range(ROUNDS // 2):
        scaled = loadings / noise[:, None]
        outer = (loadings[:, :, None] * scaled[:, None, :]).flatten(1)
        spread = torch.cholesky_inverse(torch.linalg.cholesky(one + (observed @ outer).view(rows, RANK, RANK)))
        latent = (spread @ (((x - mean) * observed) @ scaled)[..., None])[..., 0]
        known = torch.cat([latent, x.new_ones(rows, 1)], 1)
        second = known[:, :, None] * known[:, None, :]
        second[:, :RANK, :RANK] += spread
        gram = (observed.T @ second.flatten(1)).view(dims, RANK + 1, RANK + 1)
        cross = (x * observed).T @ known
        solved = torch.linalg.solve(gram + prior, cross[..., None])[..., 0]
        squares = (x.square() * observed).sum(0) - 2 * (solved * cross).sum(1)
        squares = squares + ((gram @ solved[..., None])[..., 0] * solved).sum(1)
        noise = ((squares + PRIOR_ROWS) / (count + PRIOR_ROWS)).clamp_min(LEAST_VARIANCE)
        loadings, mean = solved[:, :RANK], solved[:, RANK]
    return mean, loadings, noise
