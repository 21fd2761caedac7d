"""The reward of a variable for a model with a latent vector z, estimated with the same samples of z in all terms.

K latent vectors z_k with weights w_k represent p(z | x_given). They define a distribution of all other variables,
sum_k w_k prod_i p(x_i | z_k), and the reward is the mutual information under this distribution: the mean, over samples
from it, of

    log p(x_target | x_i) - log p(x_target),

with the same z_k in both terms and the same samples for all candidates. The reward is therefore unbiased for this
distribution and never negative in expectation, for every K; importance sampling with separate z would add a separate
error to each term. The distribution approaches that of the model as K grows: precise evidence leaves weight on few z_k.

The z_k come from the encoder first, then twice from a Gaussian fitted to the weighted samples (adaptive importance
sampling), always with a share from the prior: an encoder trained on whole rows is a poor proposal for
p(z | part of a row).
"""

from __future__ import annotations

import torch
from torch import Tensor

from mac_policy.common.checks import check_count
from mac_policy.core.heads.head import draw_index
from mac_policy.rows.acquisition.information_gain import check_question
from mac_policy.rows.baselines.importance import Proposal, log_prior
from mac_policy.rows.baselines.latent import LatentModel

REFITS = 2
WIDER = 1.5  # variance of a fitted proposal, as a multiple of the variance of the weighted samples
FEWEST = 0.05  # effective share of the samples that a fit needs
HALVINGS = 20
NUMBERS = 4_000_000  # densities that are held in memory at a time


@torch.no_grad()
def latent_information_gain(
    model: LatentModel,
    x: Tensor,
    *,
    given: Tensor,
    target: Tensor,
    candidates: Tensor | None = None,
    num_samples: int = 256,
    latents: int = 1000,
    generator: torch.Generator | None = None,
) -> Tensor:
    """I(x_target; x_i | x_given) in nats, (B, N), as `information_gain`, from `latents` samples of z for each row.

    >>> import torch
    >>> from mac_policy.rows.acquisition.latent import latent_information_gain
    >>> from mac_policy.rows.baselines import VAE
    >>> from mac_policy.core.heads import Gaussian
    >>> vae, target = VAE((3,), None, Gaussian(), {"kind": "mlp", "width": 8, "depth": 1}), torch.arange(3) == 2
    >>> latent_information_gain(vae, torch.zeros(5, 3), given=target & False, target=target).shape
    torch.Size([5, 3])
    """
    num_samples, latents = check_count("num_samples", num_samples), check_count("latents", latents)
    given, target, candidates = check_question(model, x, given=given, target=target, candidates=candidates)
    x = torch.where(given, x, torch.zeros_like(x))
    portion = max(1, NUMBERS // (num_samples * latents * model.num_variables))
    parts = zip(*(part.split(portion) for part in (x, given, target, candidates)), strict=True)
    return torch.cat([_gains(model, *of, num_samples, latents, generator) for of in parts])  # type: ignore[call-arg]


def _gains(
    model: LatentModel,
    x: Tensor,
    given: Tensor,
    target: Tensor,
    candidates: Tensor,
    num_samples: int,
    latents: int,
    generator: torch.Generator | None,
) -> Tensor:
    params, log_weights = weighted_latents(model, x, given, latents, generator)
    weights = log_weights[:, None].expand(-1, num_samples, -1)  # (B, S, K)
    chosen = draw_index(weights, generator)[..., None, None].expand(-1, -1, *params.shape[2:])
    drawn = model.head(params.gather(1, chosen)).sample(1.0, generator)  # (B, S, N)

    def log_density(variable: int) -> Tensor:
        """(B, S, K)"""
        wide = params[:, None, :, variable].expand(-1, num_samples, -1, -1)
        found: Tensor = model.head(wide).log_prob(drawn[:, :, None, variable].expand(wide.shape[:-1]))
        return found

    targets = torch.zeros_like(weights)
    for variable in target.any(0).nonzero()[:, 0].tolist():
        targets = targets + torch.where(target[:, None, None, variable], log_density(variable), 0.0)
    before = (weights + targets).logsumexp(-1)
    gains = torch.full(x.shape, -torch.inf, dtype=before.dtype)
    for variable in candidates.any(0).nonzero()[:, 0].tolist():
        acquired = weights + log_density(variable)
        gained = ((acquired + targets).logsumexp(-1) - acquired.logsumexp(-1) - before).mean(1)
        gains[:, variable] = torch.where(candidates[:, variable], gained, -torch.inf)
    return gains


def weighted_latents(
    model: LatentModel, x: Tensor, given: Tensor, count: int, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """Weighted samples z_k of p(z | x_given) for rows x (B, N): the parameters (B, K, N, P) of p(x_i | z_k) and the log
    weights (B, K), normalised. Rows without given variables take z from the prior."""
    proposal, informed = model.proposal(x, given, model.prior_share), given.any(1, keepdim=True)
    for left in reversed(range(REFITS + 1 if bool(informed.any()) else 1)):
        z = proposal.draw(count, generator)
        params = torch.cat([model.decoder(codes) for codes in z.flatten(0, 1).split(model.rows_per_pass)])
        params = params.view(len(x), count, *params.shape[1:])
        terms = model.head(params).log_prob(x[:, None].expand(params.shape[:-1]))
        evidence = torch.where(given[:, None], terms, torch.zeros_like(terms)).sum(-1)
        log_weights = evidence + log_prior(z) - proposal.log_prob(z)
        if left:
            proposal = _fitted(z, log_weights, informed, model.prior_share)
    return params, log_weights.log_softmax(-1)


def _fitted(z: Tensor, log_weights: Tensor, informed: Tensor, prior_share: float) -> Proposal:
    """A Gaussian, wider than the weighted samples z (B, K, L); the prior for rows that are not `informed` (B, 1)."""
    weights = flattened(log_weights, FEWEST * z.shape[1]).softmax(-1)[..., None]
    mean = (weights * z).sum(1)
    variance = WIDER * (weights * (z - mean[:, None]).square()).sum(1)
    zero = torch.zeros_like(mean)
    return Proposal(torch.where(informed, mean, zero), torch.where(informed, 0.5 * variance.log(), zero), prior_share)


def flattened(log_weights: Tensor, least: float) -> Tensor:
    """Log weights (B, K) times the largest power (at most 1) with an effective sample size 1 / sum w^2 of `least`.

    >>> import torch
    >>> from mac_policy.rows.acquisition.latent import flattened
    >>> flattened(torch.tensor([[0.0, 1.0], [0.0, 99.0]]), 1.5).softmax(-1)
    tensor([[0.2689, 0.7311],
            [0.2113, 0.7887]])
    """
    low, high = torch.zeros_like(log_weights[:, :1]), torch.ones_like(log_weights[:, :1])
    power = high
    for _ in range(HALVINGS):
        enough = 1 / (power * log_weights).softmax(-1).square().sum(-1, keepdim=True) >= least
        low, high = torch.where(enough, power, low), torch.where(enough, high, power)
        power = (low + high) / 2
    return low * log_weights
