"""Shared autonomy for robots with any-order models.

The public names are loaded when first used, so that `import mac_policy` is quick.

>>> from mac_policy import load_policy
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mac_policy.common.files import CheckpointError
    from mac_policy.core.factorization import MaskTuned, UniformOrder
    from mac_policy.core.model import AnyOrderModel
    from mac_policy.core.staged import StagedModes
    from mac_policy.demonstrations.demonstrations import Demonstrations, Episode
    from mac_policy.filter.action_filter import ActionFilter
    from mac_policy.filter.vector_action_filter import VectorActionFilter
    from mac_policy.operators.dims import OperatorDims
    from mac_policy.operators.operator import Operator
    from mac_policy.operators.registry import OperatorKind, make_operator, register_operator
    from mac_policy.policies.checkpoint import load_policy, save_policy
    from mac_policy.policies.fit import TrainResult, train
    from mac_policy.policies.policy import Policy
    from mac_policy.policies.registry import POLICIES, make_policy, register_policy
    from mac_policy.policies.settings import PolicySettings
    from mac_policy.policies.spaces import Spaces
    from mac_policy.policies.state import PolicyState
    from mac_policy.rows.imputer.estimator import Imputer
    from mac_policy.training.loop import TrainingDiverged
    from mac_policy.training.settings import TrainSettings

__version__ = "0.1.0"

_HOME = {
    "POLICIES": "policies.registry",
    "ActionFilter": "filter.action_filter",
    "AnyOrderModel": "core.model",
    "CheckpointError": "common.files",
    "Demonstrations": "demonstrations.demonstrations",
    "Episode": "demonstrations.demonstrations",
    "Imputer": "rows.imputer.estimator",
    "Operator": "operators.operator",
    "OperatorDims": "operators.dims",
    "OperatorKind": "operators.registry",
    "make_operator": "operators.registry",
    "register_operator": "operators.registry",
    "MaskTuned": "core.factorization",
    "Policy": "policies.policy",
    "PolicyState": "policies.state",
    "Spaces": "policies.spaces",
    "StagedModes": "core.staged",
    "TrainResult": "policies.fit",
    "TrainSettings": "training.settings",
    "TrainingDiverged": "training.loop",
    "UniformOrder": "core.factorization",
    "VectorActionFilter": "filter.vector_action_filter",
    "load_policy": "policies.checkpoint",
    "make_policy": "policies.registry",
    "register_policy": "policies.registry",
    "PolicySettings": "policies.settings",
    "save_policy": "policies.checkpoint",
    "train": "policies.fit",
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
    "Operator",
    "OperatorDims",
    "OperatorKind",
    "Policy",
    "PolicySettings",
    "PolicyState",
    "Spaces",
    "StagedModes",
    "TrainResult",
    "TrainSettings",
    "TrainingDiverged",
    "UniformOrder",
    "VectorActionFilter",
    "load_policy",
    "make_operator",
    "make_policy",
    "register_operator",
    "register_policy",
    "save_policy",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
