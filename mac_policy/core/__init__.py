"""The any-order autoregressive engine: masks, orders, factorisations, heads, networks, and the model."""

from mac_policy.core.factorization import Factorization, MaskTuned, UniformOrder
from mac_policy.core.induced import induced_edge_law, induced_mask_distribution
from mac_policy.core.masks import Bernoulli as BernoulliMasks
from mac_policy.core.masks import FixedMasks, MaskDistribution, UniformCardinality
from mac_policy.core.model import AnyOrderModel
from mac_policy.core.staged import IMAGE_MODES, StagedModes
from mac_policy.core.training_draws import TrainingMasks, TrainingQueries
from mac_policy.core.untrained import UntrainedQueryWarning

__all__ = [
    "IMAGE_MODES",
    "AnyOrderModel",
    "BernoulliMasks",
    "Factorization",
    "FixedMasks",
    "MaskDistribution",
    "MaskTuned",
    "StagedModes",
    "TrainingMasks",
    "TrainingQueries",
    "UniformCardinality",
    "UniformOrder",
    "UntrainedQueryWarning",
    "induced_edge_law",
    "induced_mask_distribution",
]
