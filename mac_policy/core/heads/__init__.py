"""Univariate conditionals: what a network's numbers mean for one variable."""

from mac_policy.core.heads.continuous import Gaussian, GaussianMixture
from mac_policy.core.heads.discrete import Bernoulli, Categorical
from mac_policy.core.heads.discretized import DiscretizedLogisticMixture, PixelLogisticMixture
from mac_policy.core.heads.energy import EnergyTilted
from mac_policy.core.heads.head import Conditional, Head
from mac_policy.core.heads.mixed import Mixed
from mac_policy.core.heads.rounded import RoundedMixture

__all__ = [
    "Bernoulli",
    "Categorical",
    "Conditional",
    "DiscretizedLogisticMixture",
    "EnergyTilted",
    "Gaussian",
    "GaussianMixture",
    "Head",
    "Mixed",
    "PixelLogisticMixture",
    "RoundedMixture",
]
