"""Set networks: (values, evidence bits) to the parameters of every variable's conditional."""

from mac_policy.core.networks.base import SetNetwork
from mac_policy.core.networks.mlp import MLP

__all__ = ["MLP", "SetNetwork"]
