"""Baselines for any-order models: a VAE, MIWAE and a DDPM with RePaint, on the same networks and heads.

Each baseline is a `RowModel` with `draw`, `forward` (its loss), `log_prob`, `sample` and `impute`. Its constructor is
`(shape, levels, head, network, **settings)` with plain values as settings.
"""

from mac_policy.rows.baselines.baseline import Baseline
from mac_policy.rows.baselines.diffusion import DDPM
from mac_policy.rows.baselines.latent import MIWAE, VAE

BASELINES: dict[str, type[Baseline]] = {"vae": VAE, "miwae": MIWAE, "ddpm": DDPM}

__all__ = ["BASELINES", "DDPM", "MIWAE", "VAE", "Baseline"]
