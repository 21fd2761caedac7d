"""States beside the demonstrated ones: the corrected action leads back to what the demonstration would have reached."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from mac_policy.common.actions import Actions
from mac_policy.policies.bc import BC, BCSettings
from mac_policy.policies.recovery import Recovery
from mac_policy.policies.registry import make_policy
from mac_policy.policies.spaces import Spaces

GAIN = np.array([0.2, -0.5])  # of action 1 on observation 0, of action 0 on observation 3


def demonstrations(n=400, seed=0):
    """Observation 0 is moved by action 1 and 3 by action 0; 1 is noise, 2 constant; action 2 moves nothing."""
    rng = np.random.default_rng(seed)
    actions = rng.uniform(-1, 1, (n, 3)).astype(np.float32)
    observations = rng.normal(size=(n, 4)).astype(np.float32)
    observations[:, 2] = 1.0
    observations[:, 0] = np.concatenate([[0], np.cumsum(GAIN[0] * actions[:-1, 1])])
    observations[:, 3] = np.concatenate([[0], np.cumsum(GAIN[1] * actions[:-1, 0])])
    episodes = np.repeat([0, 1], n // 2)
    observations[episodes == 1, 0] += 50.0  # a jump between episodes is no change of a step
    return observations, actions, episodes


def test_pairs_and_gains_are_found_within_episodes():
    recovery = Recovery.fit(*demonstrations())
    assert recovery.action_dims.tolist() == [0, 1]
    assert recovery.observation_dims.tolist() == [3, 0]
    torch.testing.assert_close(recovery.gain, torch.tensor([-0.5, 0.2]), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("steps", [1.0, 4.0])
def test_corrected_actions_come_back_to_the_demonstrated_path(steps):
    recovery = Recovery.fit(*demonstrations())
    g = torch.Generator().manual_seed(0)
    observations, actions = torch.randn((20, 2, 4), generator=g), torch.randn((20, 5, 3), generator=g)
    seen, corrected = recovery.displace(observations, actions, torch.randn((20, 2), generator=g), steps)
    assert torch.equal(seen[..., 1:3], observations[..., 1:3])
    assert torch.equal(corrected[..., 2], actions[..., 2])
    for action_dim, observation_dim, gain in ((0, 3, GAIN[1]), (1, 0, GAIN[0])):
        displacement = (seen - observations)[:, -1, observation_dim]
        torch.testing.assert_close((seen - observations)[:, 0, observation_dim], displacement)
        moved = gain * (corrected - actions)[..., action_dim].cumsum(1)  # beyond what was demonstrated
        left = displacement[:, None] * (1 - 1 / steps) ** torch.arange(1, 6)
        torch.testing.assert_close(displacement[:, None] + moved, left, atol=1e-4, rtol=1e-3)


def test_a_policy_trains_on_displaced_states_only_when_told_to():
    observations, actions, episodes = demonstrations()
    both = Spaces.of(spaces.Box(-np.inf, np.inf, (4,)), spaces.Box(-1, 1, (3,)))
    batch = (torch.from_numpy(observations[:8, None]), torch.from_numpy(actions[:8, None]), torch.ones(8, 1))
    losses = []
    for displacement in (0.0, 2.0):
        policy = make_policy("bc", both, {"width": 16, "depth": 1, "displacement": displacement})
        policy.recovery = Recovery.fit(observations, actions, episodes)
        draws = policy.draw(8, torch.Generator().manual_seed(0))
        assert (draws.displacement is not None) == (displacement > 0)
        losses.append(policy(*batch, draws).item())
    assert losses[0] != losses[1]


class Seeing(BC):
    """Keeps the labels that its loss is shown."""

    def loss(self, context, actions, inside, draws, frame=None):
        self.shown = actions
        return super().loss(context, actions, inside, draws, frame)


@pytest.mark.parametrize(("meaning", "stays"), [("absolute", True), ("unknown", False)])
def test_a_place_is_the_same_from_a_displaced_state(meaning, stays):
    observations, actions, episodes = demonstrations()
    both = Spaces.of(spaces.Box(-np.inf, np.inf, (4,)), spaces.Box(-1, 1, (3,)), Actions(meaning=meaning))
    policy = Seeing(both, BCSettings(width=8, displacement=2.0))
    policy.recovery = Recovery.fit(observations, actions, episodes)
    labels = torch.from_numpy(actions[:8, None])
    draws = policy.draw(8, torch.Generator().manual_seed(0))
    policy(torch.from_numpy(observations[:8, None]), labels, torch.ones(8, 1), draws)
    assert torch.equal(policy.shown, labels[:, 0]) == stays


def test_nothing_to_recover_by_is_no_error():
    rng = np.random.default_rng(0)
    recovery = Recovery.fit(rng.normal(size=(50, 3)), np.zeros((50, 2)), np.zeros(50, int))
    assert len(recovery.gain) == 0
    observations, actions = torch.ones(2, 1, 3), torch.ones(2, 1, 2)
    seen, corrected = recovery.displace(observations, actions, torch.zeros(2, 0), 4.0)
    assert torch.equal(seen, observations)
    assert torch.equal(corrected, actions)
