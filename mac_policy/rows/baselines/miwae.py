"""The importance-weighted autoencoder that trains with missing values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mac_policy.core.heads import Head
from mac_policy.rows.baselines.latent import LatentModel


class MIWAE(LatentModel):
    """The importance-weighted autoencoder for missing data of Mattei and Frellsen (2019).

    As `VAE`, but the encoder is told what is seen, and every training step hides a subset of each row (a cardinality
    uniform in 1..N is seen) and maximises the importance-weighted bound of what is left, from `training_samples`.

    >>> import torch
    >>> from mac_policy.rows.baselines import MIWAE
    >>> from mac_policy.core.heads import Bernoulli
    >>> miwae = MIWAE((1, 8, 8), 2, Bernoulli(), {"kind": "unet", "base_channels": 8, "blocks": 1})
    >>> miwae.sample(torch.zeros(3, 64), given=torch.zeros(64, dtype=torch.bool)).shape
    torch.Size([3, 64])
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
        training_samples: int = 20,
        prior_share: float = 0.25,
    ) -> None:
        super().__init__(
            shape,
            levels,
            head,
            network,
            latent_dim=latent_dim,
            importance_samples=importance_samples,
            training_samples=training_samples,
            prior_share=prior_share,
            hide=True,
        )
