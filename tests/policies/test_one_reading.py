"""A decision of one row reads its context once, and nothing of it is kept for the next one."""

import numpy as np
import pytest

from tests.policies.conftest import ACTION, OBSERVATION, make

SEEN = np.full(OBSERVATION, 2.0, np.float32)
COMMAND = np.full(ACTION, 0.3, np.float32)
HELD = np.arange(ACTION) == 1


def readings(policy):
    """A list that grows with each reading of a context by the policy's trunk."""
    found = []
    policy.model.network.trunk.register_forward_hook(lambda *_: found.append(1))
    return found


@pytest.mark.parametrize("settings", [{}, {"horizon": 4, "execute": 4, "plans": 0.5}], ids=str)
@pytest.mark.parametrize("labelled", [False, True])
def test_a_decision_reads_its_context_once(labelled, settings):
    policy = make("mac", labelled=labelled, **settings)
    found, state = readings(policy), None
    for step in range(1, 4):
        _, state = policy.step(SEEN, state, COMMAND, HELD)
        assert len(found) == step


@pytest.mark.parametrize("decode", ["mode", "best"])
def test_nothing_is_kept_for_another_decision(decode):
    policy, other = (make("mac", seed=seed, labelled=True, decode=decode) for seed in (0, 7))
    policy.belief(SEEN, COMMAND, HELD)
    policy.act(SEEN, COMMAND, HELD)
    policy.belief(SEEN, COMMAND, HELD)
    policy.load_state_dict(other.state_dict())
    for labels in (None, {"task": "light"}):
        ours, theirs = (
            each.step(SEEN, None, COMMAND, HELD, labels=labels, deterministic=True)[0] for each in (policy, other)
        )
        np.testing.assert_array_equal(ours, theirs)
