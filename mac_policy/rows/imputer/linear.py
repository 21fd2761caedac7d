"""The linear part of the Imputer: a joint Gaussian of all dimensions, fitted to incomplete rows by EM.

Its covariance is W W' + diag(psi), so that the conditional of any dimensions given any others costs one small
factorisation a row: the latent z of x = mean + W z + noise has the posterior precision I + W_e' psi_e^-1 W_e.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

FULL_RANK = 40  # up to this many dimensions the covariance has full rank
RANK = 32  # of the covariance of more dimensions
PRIOR_ROWS = 1.0  # rows of unit covariance that the fit adds: a dimension that equals another keeps a variance
ROUNDS = 40
TOLERANCE = 1e-3
ENTRIES = 2_000_000  # of the matrices that are factorised together
LEAST_VARIANCE = 1e-6
FIT_ROWS = 20_000


class JointGaussian(nn.Module):
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

    @torch.no_grad()
    def forward(self, x: Tensor, evidence: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of every dimension given x at `evidence`, (M, B, D) each."""
        members, rows, dims = x.shape
        seen, w = evidence.to(self.mean.dtype), self.loadings
        scaled = w / self.noise[..., None]
        outer = (w[..., :, None] * scaled[..., None, :]).flatten(2)
        rank = w.shape[-1]
        precision = torch.bmm(seen, outer).view(members, rows, rank, rank)
        precision = precision + torch.eye(rank, dtype=w.dtype, device=w.device)
        factor = torch.linalg.cholesky(precision)
        off = torch.where(evidence, x.to(w.dtype) - self.mean[:, None], 0.0)
        latent = torch.cholesky_solve(torch.bmm(off, scaled)[..., None], factor)[..., 0]
        right = w.transpose(1, 2)[:, None].expand(members, rows, rank, dims)
        spread = torch.linalg.solve_triangular(factor, right, upper=False).square().sum(-2)
        mean = self.mean[:, None] + torch.bmm(latent, w.transpose(1, 2))
        return mean, (self.noise[:, None] + spread).sqrt()


@torch.no_grad()
def fit_gaussian(x: Tensor, observed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean (D,), loadings (D, k) and noise variances (D,) of standardised rows x (R, D) with missing values.

    >>> import torch
    >>> from mac_policy.rows.imputer.linear import JointGaussian, fit_gaussian
    >>> z = torch.randn(500, 1, generator=torch.Generator().manual_seed(0)).double()
    >>> x = z.expand(500, 2)
    >>> joint = JointGaussian([fit_gaussian(x, torch.ones(500, 2, dtype=torch.bool))])
    >>> mean, std = joint(torch.ones(1, 1, 2).double(), torch.tensor([[[True, False]]]))
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
