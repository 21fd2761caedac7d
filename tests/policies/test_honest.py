"""Densities of episodes that were not trained on."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium import spaces

from mac_policy import Demonstrations, Episode, Spaces, load_policy, train
from mac_policy.core.heads import GaussianMixture
from mac_policy.core.heads.widened import Widened, widened
from mac_policy.policies.data import TrainingData
from mac_policy.policies.honest import folds
from mac_policy.policies.registry import make_policy
from tests.policies.conftest import OBSERVATION, SMALL, SPACES
from tests.training.helpers import quickly, same

SETTINGS = SMALL["mac"] | {"width": 32, "min_log_std": -4.0, "alone": 0.5, "masks_per_row": 2, "evidence_noise": 0.0}


def noisy(episodes, seed=0, steps=20):
    """Episodes whose actions are a line of the observation and noise of standard deviation 0.2, 0.4 and 0.1."""
    rng, made = np.random.default_rng(seed), []
    for _ in range(episodes):
        seen = rng.normal(0, 1, (steps + 1, OBSERVATION))
        mean = np.stack([0.2 * seen[:-1, 0], 0.4 * seen[:-1, 1], 0.25 + 0.05 * seen[:-1, 2]], 1)
        acted = np.clip(mean + rng.normal(0, [0.2, 0.4, 0.1], mean.shape), SPACES.action.low, SPACES.action.high)
        zeros, no = np.zeros(steps, np.float32), np.zeros(steps, bool)
        made.append(Episode(seen.astype(np.float32), acted.astype(np.float32), zeros, no, no))
    return Demonstrations.of(made, name="noisy", kind="scripted")


def coverage(policy, demos, model=None):
    """The mean share of the present step's values inside the central 90%."""
    batch = TrainingData.of(demos, policy, torch.device("cpu")).batch(torch.arange(demos.steps))
    return float(np.mean(policy.coverage(*batch)[90]))


def fitted(tmp_path, **settings):
    policy = make_policy("mac", SPACES, SETTINGS | settings, seed=0)
    return train(policy, noisy(8), quickly(steps=400, validation=0.25), tmp_path, seed=0, quiet=True).policy


def test_densities_that_stop_early_are_honest_where_those_of_the_acting_network_are_not(tmp_path):
    policy, fresh = fitted(tmp_path, honest_steps=40), noisy(40, seed=1)
    honest = coverage(policy, fresh)
    policy.honest_ready.fill_(0.0)  # the densities of the acting network, as it was trained
    for factor in policy.widened.buffers():
        factor.zero_()
    assert coverage(policy, fresh) < 0.84  # learned by heart
    assert honest == pytest.approx(0.9, abs=0.04)


def regions(episodes, seed):
    """Episodes of two actions: the second one follows the first closely where the observation is above zero, and is
    noise of its own elsewhere. Also its true standard deviation at each step."""
    rng, made, deviations = np.random.default_rng(seed), [], []
    for _ in range(episodes):
        tight = np.arange(100) % 2 == 0
        seen = np.stack([np.where(tight, 1.0, -1.0), rng.normal(size=100)], 1).astype(np.float32)
        first = 0.5 * seen[:, 1] + 0.3 * rng.normal(size=100)
        deviation = np.where(tight, 0.02, 0.3)
        second = np.where(tight, first, 0.0) + deviation * rng.normal(size=100)
        zeros, no = np.zeros(100, np.float32), np.zeros(100, bool)
        acted = np.stack([first, second], 1).clip(-3, 3).astype(np.float32)
        made.append(Episode(np.concatenate([seen, seen[-1:]]), acted, zeros, no, no))
        deviations.append(deviation)
    return Demonstrations.of(made, name="regions", kind="scripted"), np.concatenate(deviations)


def test_without_noise_and_floor_densities_are_honest_in_tight_and_loose_regions_alike(tmp_path):
    """Evidence noise and the floor of the acting network are none of the honest one's."""
    space = spaces.Box(-3, 3, (2,), np.float32)
    both = Spaces.of(spaces.Box(-np.inf, np.inf, (2,), np.float32), space)
    known = {"honest_steps": 250, "masks_per_row": 2, "components": 5, "min_log_std": -1.5, "evidence_noise": 0.5}
    sizes = {"width": 64, "depth": 2, "query_width": 64, "query_depth": 2}
    (demos, _), (fresh, deviation) = regions(20, 0), regions(20, 1)
    seen = np.concatenate([episode.observations[:-1] for episode in fresh.episodes])
    acted = np.concatenate([episode.actions for episode in fresh.episodes])
    follows = np.where(seen[:, 0] > 0, acted[:, 0], 0.0)
    true = -0.5 * ((acted[:, 1] - follows) / deviation) ** 2 - np.log(deviation) - 0.5 * np.log(2 * np.pi)
    short = {}
    for name, own in (("own", {"honest_noise": 0.0, "honest_floor": -4.0}), ("acting", {})):
        policy = make_policy("mac", both, sizes | known | own, seed=0)
        run = quickly(steps=20, batch_size=256, validation=0.1, learning_rate=3e-3)
        policy = train(policy, demos, run, tmp_path / name, seed=0, quiet=True).policy
        found = policy.log_prob(seen, acted, given=np.tile([True, False], (len(seen), 1)))
        short[name] = np.array([(true - found)[region].mean() for region in (seen[:, 0] > 0, seen[:, 0] < 0)])
        loaded = load_policy(tmp_path / name)
        np.testing.assert_array_equal(loaded.log_prob(seen, acted), policy.log_prob(seen, acted))
    assert (short["own"] < [0.35, 0.05]).all(), short
    assert short["acting"][0] > short["own"][0] + 0.3, short


def test_the_acting_network_does_not_depend_on_the_honest_one(tmp_path):
    with_it, without = (
        fitted(tmp_path / str(steps), honest_steps=steps, honest_noise=0.0, honest_floor=-5.0) for steps in (20, 0)
    )
    for name, value in without.model.state_dict().items():
        torch.testing.assert_close(with_it.model.state_dict()[name], value, rtol=0, atol=0)


def test_a_policy_with_two_networks_is_stored_and_trained_alike_twice(tmp_path):
    first, second = (fitted(tmp_path / name, honest_steps=20) for name in "ab")
    assert same(first, second)
    loaded, (seen, acted) = load_policy(tmp_path / "a"), (np.ones((3, OBSERVATION), np.float32), np.full((3, 3), 0.2))
    np.testing.assert_array_equal(loaded.log_prob(seen, acted), first.log_prob(seen, acted))


def test_folds_leave_every_episode_out_once():
    demos = noisy(7)
    found = folds(demos, 3, seed=0)
    assert sorted(len(out) for _, out in found) == [2, 2, 3]
    assert all(len(rest) + len(out) == 7 for rest, out in found)
    left = {episode.actions.tobytes() for _, out in found for episode in out.episodes}
    assert left == {episode.actions.tobytes() for episode in demos.episodes}
    assert len(folds(noisy(2), 3, seed=0)) == 2


def test_spreads_are_widened_to_the_values_they_are_fitted_to():
    """A mixture that says 1 where 3 is true for one variable, and 0.5 for another."""
    head, generator = Widened(GaussianMixture(1), 2), torch.Generator().manual_seed(0)
    x = torch.randn(4000, 2, generator=generator) * torch.tensor([3.0, 0.5])
    base = GaussianMixture(1)(torch.zeros(4000, 2, 3))
    head.fit(base, x, torch.ones_like(x, dtype=torch.bool))
    found = head(torch.zeros(1, 2, 3))
    variance = (found.log_weights.exp() * found.log_stds.mul(2).exp()).sum(-1)
    torch.testing.assert_close(variance.sqrt()[0], torch.tensor([3.0, 0.5]), rtol=0.05, atol=0)


def test_a_widened_head_over_another_one_keeps_the_same_factors():
    first, other = Widened(GaussianMixture(2), 2), GaussianMixture(2, min_log_std=-1.0)
    over, params = first.over(other), torch.randn(3, 2, 6, generator=torch.Generator().manual_seed(0)) - 3
    first.log_narrow.fill_(0.5)  # after the head over another one was made
    first.double()
    assert over.log_narrow.dtype == torch.float64
    torch.testing.assert_close(
        over(params).log_stds[..., ::2].float() - other(params).log_stds, torch.full((3, 2, 2), 0.5)
    )


def test_a_widened_density_integrates_to_one_and_is_the_same_before_it_is_fitted():
    head = GaussianMixture(3)
    base = head(torch.randn(1, 9, generator=torch.Generator().manual_seed(0)))
    x = torch.linspace(-60, 60, 120001)[None]
    for factors in ((0.0, 0.0, 0.0), (-0.5, 1.2, 0.3)):
        found = widened(base, *(torch.tensor([factor]) for factor in factors))
        mass = found.log_prob_grid(x).exp().sum() * float(x[0, 1] - x[0, 0])
        assert float(mass) == pytest.approx(1.0, abs=1e-3)
    same_law = widened(base, *(torch.zeros(1) for _ in range(3)))
    torch.testing.assert_close(same_law.log_prob_grid(x), base.log_prob_grid(x))


@pytest.mark.parametrize("episodes", [1, 2, 3])
def test_a_handful_of_episodes_is_enough_to_train(tmp_path, episodes):
    policy = make_policy("mac", SPACES, SETTINGS | {"honest_steps": 5, "horizon": 2, "plans": 0.5}, seed=0)
    found = train(policy, noisy(episodes), quickly(steps=10, validation=0.1), tmp_path, seed=0, quiet=True).policy
    assert np.isfinite(found.log_prob(np.ones((3, OBSERVATION), np.float32), np.full((3, 3), 0.2))).all()


def test_the_best_weights_have_the_densities_of_the_finished_run(tmp_path):
    last = fitted(tmp_path, honest_steps=20)
    best = load_policy(tmp_path, weights="best")
    seen, acted = np.ones((3, OBSERVATION), np.float32), np.full((3, 3), 0.2)
    np.testing.assert_array_equal(best.log_prob(seen, acted), last.log_prob(seen, acted))


def test_a_single_action_dim_has_nothing_to_command_in_part(tmp_path):
    demos = noisy(4)
    episodes = [replace(episode, actions=episode.actions[:, :1]) for episode in demos.episodes]
    both = Spaces.of(SPACES.observation, spaces.Box(-1, 1, (1,), np.float32))
    policy = make_policy("mac", both, SETTINGS | {"horizon": 2, "execute": 2, "plans": 0.5}, seed=0)
    one = Demonstrations.of(episodes, name="one", kind="scripted")
    assert train(policy, one, quickly(steps=5, validation=0.25), tmp_path, seed=0, quiet=True).steps == 5
