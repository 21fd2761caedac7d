"""Small environments, policies and operators for shared autonomy."""

import gymnasium
import numpy as np
from gymnasium import spaces

from mac_policy.operators.dims import OperatorDims
from mac_policy.operators.operator import HoldingOperator
from tests.policies.conftest import ACTION, OBSERVATION, SPACES

LENGTH = 7


class Line(gymnasium.Env):
    """Records the actions it is given; episodes of `length` steps whose observations depend on all of them."""

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, length=LENGTH, observation_space=None, action_space=None):
        self.observation_space = observation_space or spaces.Box(-100, 100, (OBSERVATION,), np.float32)
        self.action_space = action_space or SPACES.action
        self.length = length
        self.taken = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = self.np_random.normal(2.0, 1.0, self.observation_space.shape)
        self.taken = []
        return self.state.astype(np.float32), {}

    def step(self, action):
        assert action in self.action_space, action
        self.taken.append(np.array(action))
        self.state = 0.9 * self.state + 0.1 * float(np.sum(action)) + self.np_random.normal(0, 0.3, self.state.shape)
        return self.state.astype(np.float32), 1.0, len(self.taken) == self.length, False, {}


class Counting(HoldingOperator):
    """Commands 1, 2, 3, ... from the start of each episode, plus 100 times the seed."""

    def values(self, observations):
        wanted = 1 + self._steps + 100 * self._seeds
        return np.repeat(wanted[:, None], self.action_dim, 1).astype(np.float32)


def held(spec, action_dim=ACTION):
    return OperatorDims.parse(spec, action_dim)
