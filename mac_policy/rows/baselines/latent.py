"""Latent-variable models of rows, VAE and MIWAE, that answer any query by importance sampling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from mac_policy.common.checks import check_count, is_number
from mac_policy.core.heads import Head
from mac_policy.core.heads.continuous import normal
from mac_policy.core.heads.head import at_least_float32, bounded, draw_index
from mac_policy.core.masks import UniformCardinality
from mac_policy.rows.baselines.baseline import Baseline
from mac_policy.rows.baselines.importance import Proposal, log_mean_exp, log_prior
from mac_policy.rows.baselines.networks import make_halves

LOG_STD_RANGE = (-7.0, 3.0)  # of the encoder's Gaussian


class LatentModel(Baseline):
    """p(x) = integral of N(z; 0, I) prod_i p(x_i | z) dz, with an encoder q(z | x_observed) as proposal for z.

    shape, levels, head: see `Baseline`. network: kind and sizes of an any-order network, whose halves become encoder
    and decoder. training_samples: samples of z per row in a training step, 1 by default for VAE and 20 for MIWAE.
    importance_samples: samples of z per row in `log_prob` and `sample`; prior_share: the share of them that comes from
    the prior.

    `log_prob` draws K = `importance_samples` of z and returns two estimates, which agree as K grows:

    - 'model': the log of sum_k w_k p(x_query | z_k) / sum_k w_k, with z_k from q(z | x_given) and w_k = p(x_given, z_k)
      / q(z_k). For fixed samples this is a proper density of x_query, the one that `impute` samples from, and it does
      not depend on the queried values. It therefore never overstates the model. Its error grows with the distance
      between the posteriors p(z | x_given) and p(z | x_given, x_query) and with the variance of the weights.
    - 'ratio': log p(x_query, x_given) - log p(x_given), each an importance-weighted bound with its own encoding. Both
      terms are too low, so the difference errs in either direction, upwards where the encoder is worse with less
      evidence.

    For a row without given variables both are the importance-weighted bound of p(x_query), at most log p in the mean.
    """

    densities = ("model", "ratio")
    hides: ClassVar[bool] = False
    """Whether a training step hides variables of each row, and the encoder reads the mask of the others."""
    default_training_samples: ClassVar[int] = 1

    def __init__(
        self,
        shape: Sequence[int],
        levels: int | None,
        head: Head,
        network: Mapping[str, Any] | None = None,
        *,
        latent_dim: int = 8,
        importance_samples: int = 1000,
        training_samples: int | None = None,
        prior_share: float = 0.25,
    ) -> None:
        super().__init__(shape, levels, head)
        self.latent_dim = check_count("latent_dim", latent_dim)
        self.importance_samples = check_count("importance_samples", importance_samples)
        samples = self.default_training_samples if training_samples is None else training_samples
        self.training_samples = check_count("training_samples", samples)
        if not is_number(prior_share) or not 0 <= prior_share < 1:
            raise ValueError(f"prior_share must be a number from 0 up to, but not, 1, got {prior_share!r}")
        self.prior_share = float(prior_share)
        self.encoder, self.decoder = make_halves(
            network or self._default_network(),
            self.shape,
            num_features=head.num_features,
            num_outputs=2 * latent_dim,
            latent_dim=latent_dim,
            num_params=head.num_params,
        )

    # ---- training ----

    def draw(self, n: int, generator: torch.Generator) -> Tensor:
        """The variables that a training step shows of each row, (n, N) bool."""
        if not self.hides:
            return torch.ones(n, self.num_variables, dtype=torch.bool)
        return UniformCardinality(self.num_variables).sample(n, generator)

    def forward(
        self,
        x: Tensor,
        draws: Tensor,
        generator: torch.Generator | None = None,
        energy_weight: float = 1.0,
        missing: Tensor | None = None,
    ) -> Tensor:
        observed = draws if missing is None else draws & ~missing
        x = torch.where(observed, x, torch.zeros_like(x))
        return -self.bound(x, observed, self.training_samples, generator).mean() / self.num_variables

    def bound(self, x: Tensor, observed: Tensor, samples: int, generator: torch.Generator | None = None) -> Tensor:
        """The importance-weighted bound of log p(x_observed) from K samples of z, (B,); the ELBO for K = 1."""
        return log_mean_exp(self._weighted_samples(x, observed, samples, generator)[1])

    # ---- the two halves ----

    def proposal(self, x: Tensor, observed: Tensor, prior_share: float = 0.0) -> Proposal:
        """q(z | x_observed), or the prior for a row without observed variables. x is zero where it is not observed."""
        features = self.head.features(x)
        visible = torch.where(observed[..., None], features, torch.zeros_like(features))
        mask = observed if self.hides else torch.ones_like(observed)
        raw = at_least_float32(self.encoder(visible.to(next(self.parameters()).dtype), mask))
        mean, log_std = raw.chunk(2, -1)
        informed, zero = observed.any(1, keepdim=True), torch.zeros_like(mean)
        log_std = torch.where(informed, bounded(log_std, *LOG_STD_RANGE), zero)
        return Proposal(torch.where(informed, mean, zero), log_std, prior_share)

    def _log_likelihoods(self, x: Tensor, z: Tensor) -> Tensor:
        """log p(x_i | z_k) of every variable, (B, K, N)."""
        count = z.shape[1]
        rows, codes = x.repeat_interleave(count, 0), z.flatten(0, 1)
        pieces = len(codes) if torch.is_grad_enabled() else self.rows_per_pass
        parts = [
            self.head(self.decoder(code)).log_prob(row)
            for row, code in zip(rows.split(pieces), codes.split(pieces), strict=True)
        ]
        return torch.cat(parts).view(len(x), count, self.num_variables)

    # ---- likelihoods ----

    @torch.no_grad()
    def log_prob(
        self,
        x: Tensor,
        *,
        query: Tensor,
        given: Tensor,
        generator: torch.Generator | None = None,
        orders: int = 1,
        steps: int | None = None,
        step_generator: torch.Generator | None = None,
    ) -> dict[str, Tensor]:
        """The two estimates (B,), each from `importance_samples` samples of a row. There are no paths: `orders` and
        `steps` are ignored."""
        x, query, given = self._question(x, query, given)
        samples = self.importance_samples
        model, ratio = [torch.zeros(len(x), dtype=self._float, device=x.device) for _ in range(2)]
        # One pass holds whole rows with all their samples, up to `rows_per_pass` of them.
        for rows in torch.arange(len(x), device=x.device).split(max(1, self.rows_per_pass // samples)):
            asked = rows[query[rows].any(1)]
            model[asked], ratio[asked] = self._answer(x[asked], query[asked], given[asked], samples, generator)
        return {"model": model, "ratio": ratio}

    def _answer(
        self, x: Tensor, query: Tensor, given: Tensor, samples: int, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        share = self.prior_share
        log_joint = log_mean_exp(self._weighted_samples(x, query | given, samples, generator, share)[1])
        model, ratio = log_joint.clone(), log_joint
        rows = given.any(1).nonzero()[:, 0]
        if len(rows):
            _, log_weights, terms = self._weighted_samples(x[rows], given[rows], samples, generator, share)
            answers = torch.where(query[rows, None], terms, torch.zeros_like(terms)).sum(-1)
            model[rows] = (log_weights + answers).logsumexp(-1) - log_weights.logsumexp(-1)
            ratio[rows] -= log_mean_exp(log_weights)
        return model, ratio

    def _weighted_samples(
        self,
        x: Tensor,
        observed: Tensor,
        samples: int,
        generator: torch.Generator | None,
        prior_share: float = 0.0,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Samples z_k (B, K, L), their log weights log p(x_observed, z_k) / q(z_k | x_observed) (B, K), and
        log p(x_i | z_k) of every variable (B, K, N)."""
        proposal = self.proposal(torch.where(observed, x, torch.zeros_like(x)), observed, prior_share)
        z = proposal.draw(samples, generator)
        terms = self._log_likelihoods(x, z)
        inside = torch.where(observed[:, None], terms, torch.zeros_like(terms)).sum(-1)
        return z, inside + log_prior(z) - proposal.log_prob(z), terms

    # ---- samples ----

    def _completions(
        self,
        x: Tensor,
        given: Tensor,
        num_samples: int,
        steps: int | None,
        temperature: float,
        generator: torch.Generator | None,
    ) -> Tensor:
        """Resample z by its weights given x_given, then draw every variable from p(x_i | z).

        The temperature applies to p(x_i | z) alone. A row without given variables takes z from the prior.
        """
        parts = []
        for rows in torch.arange(len(x), device=x.device).split(max(1, self.rows_per_pass // self.importance_samples)):
            z, log_weights, _ = self._weighted_samples(
                x[rows], given[rows], self.importance_samples, generator, self.prior_share
            )
            logits = log_weights[:, None].expand(-1, num_samples, -1)
            chosen = draw_index(logits, generator)  # (b, S)
            codes = z.gather(1, chosen[..., None].expand(-1, -1, self.latent_dim))
            codes = torch.where(given[rows].any(1)[:, None, None], codes, normal(codes.shape, codes, generator))
            for code in codes.flatten(0, 1).split(self.rows_per_pass):
                parts.append(self.head(self.decoder(code)).sample(temperature, generator))
        return torch.cat(parts).view(len(x), num_samples, self.num_variables).transpose(0, 1)


class VAE(LatentModel):
    """The variational autoencoder (Kingma and Welling 2014), trained on whole rows by the ELBO.

    The encoder does not read a mask: variables that are not observed enter as zeros, as is usual for a plain VAE.

    >>> import torch
    >>> from mac_policy.rows.baselines import VAE
    >>> from mac_policy.core.heads import Gaussian
    >>> vae = VAE((9,), None, Gaussian(), {"kind": "mlp", "width": 32, "depth": 3})
    >>> given = torch.arange(9) < 4
    >>> vae.log_prob(torch.zeros(2, 9), query=~given, given=given)["model"].shape
    torch.Size([2])
    >>> vae.impute(torch.zeros(2, 9), given=given, num_samples=5).shape
    torch.Size([2, 5, 9])
    """


class MIWAE(LatentModel):
    """The importance-weighted autoencoder for missing data (Mattei and Frellsen 2019).

    The encoder reads the mask of observed variables. Every training step hides a subset of each row (the number of
    observed variables is uniform in 1..N) and maximises the importance-weighted bound of the observed variables.

    >>> import torch
    >>> from mac_policy.rows.baselines import MIWAE
    >>> from mac_policy.core.heads import Bernoulli
    >>> miwae = MIWAE((1, 8, 8), 2, Bernoulli(), {"kind": "unet", "base_channels": 8, "blocks": 1})
    >>> miwae.sample(torch.zeros(3, 64), given=torch.zeros(64, dtype=torch.bool)).shape
    torch.Size([3, 64])
    """

    hides = True
    default_training_samples = 20
