"""Set networks: (values, evidence bits) to the parameters of every variable's conditional; path networks: (values,
ranks) to those of all conditionals along a path."""

from mac_policy.core.networks.mlp import MLP
from mac_policy.core.networks.network import Network, SetNetwork
from mac_policy.core.networks.path_network import PathNetwork
from mac_policy.core.networks.path_transformer import PathTransformer
from mac_policy.core.networks.transformer import Transformer
from mac_policy.core.networks.trunk_query import TrunkQuery
from mac_policy.core.networks.unet import UNet

__all__ = ["MLP", "Network", "PathNetwork", "PathTransformer", "SetNetwork", "Transformer", "TrunkQuery", "UNet"]
