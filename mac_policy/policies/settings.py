"""The settings that every policy has."""

from __future__ import annotations

import dataclasses

from mac_policy.common.checks import check_count
from mac_policy.common.settings import check_range


@dataclasses.dataclass(frozen=True)
class PolicySettings:
    """The settings of every policy; a kind of policy adds its own in a subclass.

    history: number of observations that a decision is based on (1 = the present one alone)
    horizon: number of action steps that a decision plans
    execute: planned steps that are carried out before planning anew (<= horizon)
    observation_noise: standard deviation of the Gaussian noise on normalised observations in training
    displacement: in training, observations that an action dim moves are displaced by up to this many standard
        deviations of their change per step, and the action is corrected to return (see recovery.py)
    recovery_steps: number of steps that the return takes, approximately

    >>> PolicySettings(horizon=4, execute=2).history
    1
    """

    history: int = 1
    horizon: int = 1
    execute: int = 1
    observation_noise: float = 0.0
    displacement: float = 0.0
    recovery_steps: float = 4.0

    def __post_init__(self) -> None:
        for name in ("history", "horizon", "execute"):
            check_count(name, getattr(self, name))
        check_range("execute", self.execute, 1, self.horizon)
        check_range("observation_noise", self.observation_noise, 0.0)
        check_range("displacement", self.displacement, 0.0)
        check_range("recovery_steps", self.recovery_steps, 1.0)
