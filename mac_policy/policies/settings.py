"""The settings that every policy has."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from mac_policy.common.checks import check_range
from mac_policy.common.settings import Depth, NonNegative, Settings
from mac_policy.policies.variables import Chosen


@dataclass(frozen=True)
class PolicySettings(Settings):
    """The settings of every policy; a kind of policy adds its own in a subclass.

    history: number of observations that a decision is based on (1 = the present one alone)
    horizon: number of action steps that a decision plans
    execute: planned steps that are carried out before planning anew (<= horizon)
    representation: 'relative': the network says how an action is; 'absolute': it says which place the action leads
        to; 'auto': absolute where the task or the data say how to turn actions into places (see variables.py)
    observation_noise: standard deviation of the Gaussian noise on normalised observations in training
    displacement: in training, observations that an action dim moves are displaced by up to this many standard
        deviations of their change per step, and the action is corrected to return (see recovery.py)
    recovery_steps: number of steps that the return takes, approximately
    labels: whether the labels of the data, if there are any, are part of the policy: variables of mac, inputs of bc

    >>> PolicySettings(horizon=4, execute=2).history
    1
    """

    history: Depth = 1
    horizon: Depth = 1
    execute: Depth = 1
    representation: Chosen = "auto"
    observation_noise: NonNegative = 0.0
    displacement: NonNegative = 0.0
    recovery_steps: Annotated[float, partial(check_range, low=1)] = 4.0
    labels: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("execute", self.execute, 1, self.horizon)
