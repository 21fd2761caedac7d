"""Gaussian worlds in which every answer of a baseline has a closed form."""

import torch
from torch import nn
from torch.distributions import MultivariateNormal

from mac_policy.core.heads import Gaussian
from mac_policy.core.heads.head import unbounded
from mac_policy.rows.baselines import DDPM, VAE
from mac_policy.rows.baselines.latent import LOG_STD_RANGE

MLP = {"kind": "mlp", "width": 16, "depth": 1}
WEIGHT = torch.tensor([[1.0, 0.0], [0.5, -1.0], [0.0, 2.0], [-1.0, 0.5]], dtype=torch.float64)
BIAS = torch.tensor([0.5, -1.0, 0.0, 2.0], dtype=torch.float64)


class LinearDecoder(nn.Module):
    """z to x ~ N(W z + b, I): then x ~ N(b, W W^T + I)."""

    def __init__(self, weight=WEIGHT, bias=BIAS):
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)

    def forward(self, z):
        mean = z @ self.weight.T + self.bias
        return torch.stack([mean, torch.zeros_like(mean)], -1)


class ExactEncoder(nn.Module):
    """The posterior of a single latent number behind a LinearDecoder, for the numbers that it is told are seen."""

    def __init__(self, decoder):
        super().__init__()
        self.decoder = decoder

    def forward(self, features, seen):
        weight, bias = self.decoder.weight[:, 0], self.decoder.bias
        w = torch.where(seen, weight, 0)
        variance = 1 / (1 + w.square().sum(1))
        mean = variance * (w * (features[..., 0] - bias)).sum(1)
        raw = [unbounded(0.5 * v.log().item(), *LOG_STD_RANGE) for v in variance]
        return torch.stack([mean, torch.tensor(raw, dtype=mean.dtype)], 1)


def linear(cls=VAE, weight=WEIGHT, **settings):
    """A model over four numbers in float64 whose decoder is known and whose encoder is untrained, but not flat."""
    torch.manual_seed(0)
    model = cls((4,), None, Gaussian(), MLP, latent_dim=weight.shape[1], **settings).double()
    nn.init.normal_(model.encoder.output.weight, std=0.1)
    model.decoder = LinearDecoder(weight)
    return model


def covariance(weight=WEIGHT):
    return weight @ weight.T + torch.eye(len(weight), dtype=torch.float64)


def conditional(x, query, given, mean, cov):
    """Mean and covariance of x_query given x_given, of one row."""
    q, g = query.nonzero()[:, 0], given.nonzero()[:, 0]
    gain = cov[q][:, g] @ torch.linalg.inv(cov[g][:, g])
    return mean[q] + gain @ (x[g] - mean[g]), cov[q][:, q] - gain @ cov[g][:, q]


def exact_log_prob(x, query, given, mean=BIAS, cov=None):
    """log p(x_query | x_given) of a normal law, row by row."""
    cov = covariance() if cov is None else cov
    found = []
    for row, q, g in zip(x, query, given, strict=True):
        found.append(MultivariateNormal(*conditional(row, q, g, mean, cov)).log_prob(row[q]))
    return torch.stack(found)


class ExactNoise(nn.Module):
    """E[noise | x_t] where x_0 ~ N(0, cov): what a DDPM would learn from endless data."""

    def __init__(self, cov, schedule):
        super().__init__()
        self.cov, self.signal = nn.Parameter(cov), schedule.signal

    def forward(self, noisy, time):
        s = self.signal[(time.double() * (len(self.signal) - 1)).round().long()][:, None, None]
        mixed = s * self.cov + (1 - s) * torch.eye(len(self.cov), dtype=s.dtype)
        return (1 - s[:, 0]).sqrt() * torch.linalg.solve(mixed, noisy.double())


def exact_ddpm(cov, **settings):
    """A DDPM over as many numbers that knows their law N(0, cov)."""
    model = DDPM((len(cov),), None, Gaussian(), MLP, **settings).double()
    model.denoiser = ExactNoise(cov, model.schedule)
    return model


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def mask(bits):
    return torch.tensor([bit == "1" for bit in bits])
