"""Set networks: (values, evidence bits) to the parameters of every variable's conditional."""

from mac_policy.core.networks.base import SetNetwork
from mac_policy.core.networks.mlp import MLP
from mac_policy.core.networks.transformer import Transformer
from mac_policy.core.networks.trunk_query import TrunkQuery
from mac_policy.core.networks.unet import UNet

__all__ = ["MLP", "SetNetwork", "Transformer", "TrunkQuery", "UNet"]
