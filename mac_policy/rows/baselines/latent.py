"""What VAE and MIWAE are: models with a latent vector, asked about any part of a row by importance sampling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mac_policy.common.checks import check_count, is_number
from mac_policy.core.heads import Head
from mac_policy.core.heads.continuous import normal
from mac_policy.core.heads.head import at_least_float32, bounded, draw_index
from mac_policy.core.masks import UniformCardinality
from mac_policy.rows.baselines.baseline import Baseline
from mac_policy.rows.baselines.importance import Proposal, log_mean_exp, log_prior, log_weighted_mean
from mac_policy.rows.baselines.networks import make_halves

LOG_STD_RANGE = (-7.0, 3.0)  # of an encoder


class SeenMasks(NamedTuple):
    """What a training step shows of each row."""

    seen: Tensor  # (n, N) bool

    def to(self, device: torch.device | str) -> SeenMasks:
        return SeenMasks(self.seen.to(device))


class Weighed(NamedTuple):
    """Samples of the latent vector with their importance weights."""

    z: Tensor  # (B, K, L)
    log_weights: Tensor  # (B, K) log p(x_seen, z) / q(z)


class LatentModel(Baseline):
    """p(x) = integral of N(z; 0, I) prod_i p(x_i | z), with an encoder q(z | x_seen) to propose z.

    `log_prob` draws K = `importance_samples` of z and gives two estimates, which agree as K grows:

    - 'model': z_k from q(z | x_given), log of sum_k w_k p(x_query | z_k) / sum_k w_k with w_k = p(x_given, z_k) /
      q(z_k). For given samples it is a proper density of x_query, the one that `impute` draws from; it never looks at
      the answer. So its mean is never better than what the data allow; it is too low by what the posterior of z
      moves when x_query becomes known, and by the weights' spread over K.
    - 'ratio': log p(x_query, x_given) - log p(x_given), each importance-weighted by samples from its own encoding.
      Each term is too low, so the difference errs either way, upwards where the encoder is worse with less evidence.

    A row that is given nothing has the importance-weighted bound of p(x_query) in both: at most log p in the mean.
    """

    densities = ("model", "ratio")

    def __init__(
        self,
        shape: Sequence[int],
        levels: int | None,
        head: Head,
        network: Mapping[str, Any] | None,
        *,
        latent_dim: int,
        importance_samples: int,
        training_samples: int,
        prior_share: float,
        hide: bool,
    ) -> None:
        super().__init__(shape, levels, head)
        self.latent_dim = check_count("latent_dim", latent_dim)
        self.importance_samples = check_count("importance_samples", importance_samples)
        self.training_samples = check_count("training_samples", training_samples)
        if not is_number(prior_share) or not 0 <= prior_share < 1:
            raise ValueError(f"prior_share must be a number from 0 up to, but not, 1, got {prior_share!r}")
        self.prior_share = float(prior_share)
        self.hide = hide
        self.encoder, self.decoder = make_halves(
            network or self._default_network(),
            self.shape,
            num_features=head.num_features,
            num_outputs=2 * latent_dim,
            latent_dim=latent_dim,
            num_params=head.num_params,
        )

    # ---- training ----

    def draw(self, n: int, generator: torch.Generator) -> SeenMasks:
        if not self.hide:
            return SeenMasks(torch.ones(n, self.num_variables, dtype=torch.bool))
        return SeenMasks(UniformCardinality(self.num_variables).sample(n, generator))

    def forward(
        self,
        x: Tensor,
        draws: SeenMasks,
        generator: torch.Generator | None = None,
        energy_weight: float = 1.0,
        missing: Tensor | None = None,
    ) -> Tensor:
        seen = draws.seen if missing is None else draws.seen & ~missing
        x = torch.where(seen, x, torch.zeros_like(x))
        return -self.bound(x, seen, self.training_samples, generator).mean() / self.num_variables

    def bound(self, x: Tensor, seen: Tensor, samples: int, generator: torch.Generator | None = None) -> Tensor:
        """The importance-weighted bound of log p(x_seen) from K samples of the encoding, (B,); K = 1 is the ELBO."""
        proposal = self.proposal(x, seen)
        z = proposal.draw(samples, generator)
        terms = self._log_likelihoods(x, z)
        inside = torch.where(seen[:, None], terms, torch.zeros_like(terms)).sum(-1)
        return log_mean_exp(inside + log_prior(z) - proposal.log_prob(z))

    # ---- the two halves ----

    def proposal(self, x: Tensor, seen: Tensor, prior_share: float = 0.0) -> Proposal:
        """q(z | x_seen); the prior where nothing is seen. x is zero where it is not seen."""
        features = self.head.features(x)
        visible = torch.where(seen[..., None], features, torch.zeros_like(features))
        told = seen if self.hide else torch.ones_like(seen)
        raw = at_least_float32(self.encoder(visible.to(next(self.parameters()).dtype), told))
        mean, log_std = raw.chunk(2, -1)
        informed, zero = seen.any(1, keepdim=True), torch.zeros_like(mean)
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
        """The two estimates (B,). There are no paths: `orders` multiplies the samples, `steps` is of no use."""
        x, query, given = self._question(x, query, given)
        samples = self.importance_samples * check_count("orders", orders)
        model, ratio = [torch.zeros(len(x), dtype=self._float, device=x.device) for _ in range(2)]
        # Rows share passes with as many others as `rows_per_pass` holds with all their samples.
        for rows in torch.arange(len(x), device=x.device).split(max(1, self.rows_per_pass // samples)):
            asked = rows[query[rows].any(1)]
            model[asked], ratio[asked] = self._answer(x[asked], query[asked], given[asked], samples, generator)
        return {"model": model, "ratio": ratio}

    def _answer(
        self, x: Tensor, query: Tensor, given: Tensor, samples: int, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        log_joint = log_mean_exp(self._weigh(x, query | given, samples, generator)[0].log_weights)
        model, ratio = log_joint.clone(), log_joint
        rows = given.any(1).nonzero()[:, 0]
        if len(rows):
            (_, log_weights), terms = self._weigh(x[rows], given[rows], samples, generator)
            answers = torch.where(query[rows, None], terms, torch.zeros_like(terms)).sum(-1)
            model[rows] = log_weighted_mean(log_weights, answers)
            ratio[rows] -= log_mean_exp(log_weights)
        return model, ratio

    def _weigh(
        self, x: Tensor, seen: Tensor, samples: int, generator: torch.Generator | None
    ) -> tuple[Weighed, Tensor]:
        """Samples from q(z | x_seen), weighed by what is seen, and log p(x_i | z_k) of every variable (B, K, N)."""
        proposal = self.proposal(torch.where(seen, x, torch.zeros_like(x)), seen, self.prior_share)
        z = proposal.draw(samples, generator)
        terms = self._log_likelihoods(x, z)
        inside = torch.where(seen[:, None], terms, torch.zeros_like(terms)).sum(-1)
        return Weighed(z, inside + log_prior(z) - proposal.log_prob(z)), terms

    @property
    def _float(self) -> torch.dtype:
        return torch.promote_types(next(self.parameters()).dtype, torch.float32)

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
        """z resampled by its weights given x_given, then all variables from p(x_i | z), which alone the temperature
        changes. A row that is given nothing has z from the prior."""
        parts = []
        for rows in torch.arange(len(x), device=x.device).split(max(1, self.rows_per_pass // self.importance_samples)):
            (z, log_weights), _ = self._weigh(x[rows], given[rows], self.importance_samples, generator)
            logits = log_weights[:, None].expand(-1, num_samples, -1)
            chosen = draw_index(logits, generator)  # (b, S)
            codes = z.gather(1, chosen[..., None].expand(-1, -1, self.latent_dim))
            codes = torch.where(given[rows].any(1)[:, None, None], codes, normal(codes.shape, codes, generator))
            for code in codes.flatten(0, 1).split(self.rows_per_pass):
                parts.append(self.head(self.decoder(code)).sample(temperature, generator))
        return torch.cat(parts).view(len(x), num_samples, self.num_variables).transpose(0, 1)
