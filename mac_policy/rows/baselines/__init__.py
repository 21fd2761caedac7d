"""What any-order models are measured against: a VAE, MIWAE and a DDPM with RePaint, on the same networks and heads.

Each is a model of rows with the methods of an any-order arm: `draw`, `forward` (its loss), `log_prob`, `sample` and
`impute`; and a constructor `(shape, levels, head, network, **settings)` whose settings are plain values.
"""

from mac_policy.rows.baselines.baseline import Baseline
from mac_policy.rows.baselines.diffusion import DDPM
from mac_policy.rows.baselines.miwae import MIWAE
from mac_policy.rows.baselines.vae import VAE

BASELINES: dict[str, type[Baseline]] = {"vae": VAE, "miwae": MIWAE, "ddpm": DDPM}

__all__ = ["BASELINES", "DDPM", "MIWAE", "VAE", "Baseline"]
