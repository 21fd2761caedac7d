"""The plain variational autoencoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mac_policy.core.heads import Head
from mac_policy.rows.baselines.latent import LatentModel


class VAE(LatentModel):
    """A variational autoencoder (Kingma and Welling 2014), trained on whole rows by the ELBO.

    shape, levels, head: as `Baseline`; network: kind and sizes of an any-order network, whose halves become encoder
    and decoder. The encoder is not told which variables are missing: they enter as zeros, as is usual where a plain
    VAE is asked about parts of a row. prior_share: of the importance samples, drawn from the prior.

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

    def __init__(
        self,
        shape: Sequence[int],
        levels: int | None,
        head: Head,
        network: Mapping[str, Any] | None = None,
        *,
        latent_dim: int = 8,
        importance_samples: int = 1000,
        prior_share: float = 0.25,
    ) -> None:
        super().__init__(
            shape,
            levels,
            head,
            network,
            latent_dim=latent_dim,
            importance_samples=importance_samples,
            training_samples=1,
            prior_share=prior_share,
            hide=False,
        )
