"""Shared autonomy for robots with any-order models.

The public names are loaded when first used, so that `import mac_policy` is quick.

>>> from mac_policy import load_policy
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mac_policy.autonomy.action_filter import ActionFilter
    from mac_policy.autonomy.vector_action_filter import VectorActionFilter
    from mac_policy.core.factorization import MaskTuned, UniformOrder
    from mac_policy.core.model import AnyOrderModel
    from mac_policy.core.staged import StagedModes
    from mac_policy.data.demonstrations import Demonstrations, Episode
    from mac_policy.imputer.estimator import Imputer
    from mac_policy.policies.base import Policy
    from mac_policy.policies.checkpoint import CheckpointError, load_policy, save_policy
    from mac_policy.policies.registry import POLICIES, make_policy
    from mac_policy.policies.spaces import Spaces
    from mac_policy.policies.state import PolicyState
    from mac_policy.training.divergence import TrainingDiverged
    from mac_policy.training.loop import TrainResult, train
    from mac_policy.training.settings import TrainSettings

__version__ = "0.1.0"

_HOME = {
    "POLICIES": "policies.registry",
    "ActionFilter": "autonomy.action_filter",
    "AnyOrderModel": "core.model",
    "CheckpointError": "policies.checkpoint",
    "Demonstrations": "data.demonstrations",
    "Episode": "data.demonstrations",
    "Imputer": "imputer.estimator",
    "MaskTuned": "core.factorization",
    "Policy": "policies.base",
    "PolicyState": "policies.state",
    "Spaces": "policies.spaces",
    "StagedModes": "core.staged",
    "TrainResult": "training.loop",
    "TrainSettings": "training.settings",
    "TrainingDiverged": "training.divergence",
    "UniformOrder": "core.factorization",
    "VectorActionFilter": "autonomy.vector_action_filter",
    "load_policy": "policies.checkpoint",
    "make_policy": "policies.registry",
    "save_policy": "policies.checkpoint",
    "train": "training.loop",
}

__all__ = [
    "POLICIES",
    "ActionFilter",
    "AnyOrderModel",
    "CheckpointError",
    "Demonstrations",
    "Episode",
    "Imputer",
    "MaskTuned",
    "Policy",
    "PolicyState",
    "Spaces",
    "StagedModes",
    "TrainResult",
    "TrainSettings",
    "TrainingDiverged",
    "UniformOrder",
    "VectorActionFilter",
    "load_policy",
    "make_policy",
    "save_policy",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
