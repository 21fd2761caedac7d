"""Normalisation: what lies beyond the demonstrations says no more than their edge."""

import numpy as np
import torch
from gymnasium import spaces

from mac_policy.policies.normalizer import MARGIN, Normalizer
from mac_policy.policies.spaces import Spaces

SPACES = Spaces.of(spaces.Box(-np.inf, np.inf, (3,), np.float32), spaces.Box(-1, 1, (2,), np.float32))


def fitted() -> tuple[Normalizer, np.ndarray]:
    rng = np.random.default_rng(0)
    observations = rng.uniform([-1, 0, 5], [1, 10, 5], (500, 3)).astype(np.float32)
    return Normalizer.fit(observations), observations


def test_demonstrated_observations_have_mean_zero_and_unit_variance():
    normalizer, observations = fitted()
    seen = normalizer.observations(torch.from_numpy(observations))
    torch.testing.assert_close(seen.mean(0), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(seen[:, :2].std(0, correction=0), torch.ones(2), atol=1e-4, rtol=0)


def test_what_never_moved_in_the_demonstrations_says_nothing_when_it_does():
    normalizer, observations = fitted()
    still = torch.from_numpy(observations[:4])
    moved = still.clone()
    moved[:, 2] += torch.tensor([-1e6, -0.3, 0.3, 1e6])
    torch.testing.assert_close(normalizer.observations(moved), normalizer.observations(still))


def test_observations_are_followed_a_tenth_beyond_the_demonstrated_range_and_no_further():
    normalizer, observations = fitted()
    high = torch.from_numpy(observations.max(0))
    width = torch.from_numpy(np.ptp(observations, 0))
    inside, edge = normalizer.observations(high + 0.99 * MARGIN * width), normalizer.observations(high + MARGIN * width)
    beyond = normalizer.observations(high + 1e9)
    assert (inside[:2] < edge[:2]).all()
    torch.testing.assert_close(beyond, edge)
