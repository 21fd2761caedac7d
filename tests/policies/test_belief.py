"""The rule by which a belief moves, against a slow loop."""

import numpy as np
import pytest

from mac_policy.policies.belief import Belief, Heard


def slow_belief(heard, change, tempering, temperature):
    prior = np.exp(heard.prior / temperature)
    prior /= prior.sum(1, keepdims=True)
    believed, found = prior[0], []
    for p, c in zip(prior, heard.command, strict=True):
        each = zip(believed, p, c, strict=True)
        new = [((1 - change) * b + change * q) * (q > 1e-5) * np.exp(tempering * log) for b, q, log in each]
        believed = np.array(new) / sum(new)
        found.append(believed)
    return np.array(found)


def made_up(random, steps, classes=4):
    prior = np.log(random.dirichlet(np.full(classes, 0.7), steps) + 0.004)
    return Heard(prior - np.log(np.exp(prior).sum(1, keepdims=True)), random.normal(0, 3, (steps, classes)))


def test_the_rule_against_a_slow_loop():
    belief, heard = Belief(), made_up(np.random.default_rng(0), 30)
    for name, value in (("change", 0.1), ("tempering", 0.3), ("temperature", 1.5)):
        getattr(belief, name).fill_(value)
    expected = slow_belief(heard, 0.1, 0.3, 1.5)
    np.testing.assert_allclose(belief.through(heard), expected, atol=1e-6)
    np.testing.assert_allclose(belief.through(heard).sum(1), 1.0)


def test_what_is_impossible_is_not_believed_when_all_that_is_possible_was_ruled_out():
    belief = Belief()
    belief.change.fill_(0.0)
    prior = np.log(np.array([[0.6, 0.4 - 1e-7, 1e-7]]))
    heard = Heard(prior, np.array([[-30.0, -31.0, 0.0]]))  # nobody asks for the density of what is impossible
    found = belief.update(np.array([[0.0, 0.0, 1.0]]), heard)
    assert found[0, 2] == 0
    assert found.sum() == pytest.approx(1)


def test_fit_finds_the_likeliest_choice():
    random, belief = np.random.default_rng(1), Belief()
    episodes = [(made_up(random, steps), random.integers(-1, 4, steps)) for steps in (12, 7)]
    score = belief.fit(episodes)

    def mean(*choice):
        logs = [
            np.log(slow_belief(heard, *choice)[np.arange(len(truth)), truth])[truth >= 0] for heard, truth in episodes
        ]
        return np.concatenate(logs).mean()

    chosen = tuple(float(getattr(belief, name)) for name in ("change", "tempering", "temperature"))
    assert score == pytest.approx(mean(*chosen), abs=1e-5)
    for other in [(0.01, 0.2, 1.0), (0.05, 0.7, 1.0), (0.2, 0.05, 3.0), (0.1, 0.1, 2.0)]:
        assert mean(*other) <= score + 1e-6
