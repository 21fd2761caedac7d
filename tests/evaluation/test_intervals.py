"""Intervals cover what they promise."""

import numpy as np
import pytest

from mac_policy.evaluation.intervals import two_level_interval, wilson_interval


def test_wilson_covers_the_true_share_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    for share in (0.1, 0.5, 0.95):
        found = [wilson_interval(int(k), 60) for k in rng.binomial(60, share, 1000)]
        covered = np.mean([low <= share <= high for low, high in found])
        assert 0.91 < covered < 0.985


def test_wilson_stays_inside_zero_and_one_and_refuses_what_is_no_share():
    assert wilson_interval(0, 10)[0] == 0.0
    assert wilson_interval(10, 10)[1] == 1.0
    for successes, trials in ((1, 0), (3, 2), (-1, 5)):
        with pytest.raises(ValueError, match="make no share"):
            wilson_interval(successes, trials)


def test_the_spread_between_seeds_counts_and_not_the_number_of_episodes():
    seeds = [np.full(50, mean) for mean in (1.0, 2.0, 3.0, 2.0, 1.0)]
    low, high = two_level_interval(seeds)
    assert low < 1.4
    assert high > 2.2
    many = two_level_interval([np.repeat(s, 20) for s in seeds])
    assert np.allclose(many, (low, high))


def test_with_one_seed_it_is_the_bootstrap_over_episodes():
    episodes = np.random.default_rng(0).integers(0, 5, 200).astype(float)
    low, high = two_level_interval([episodes])
    half = 1.96 * episodes.std() / 200**0.5
    assert low == pytest.approx(episodes.mean() - half, abs=0.03)
    assert high == pytest.approx(episodes.mean() + half, abs=0.03)


def test_it_is_reproducible_and_refuses_nothing_to_measure():
    data = [np.arange(5.0), np.arange(3.0)]
    assert two_level_interval(data) == two_level_interval(data)
    for nothing in ([], [np.array([])]):
        with pytest.raises(ValueError, match="at least one"):
            two_level_interval(nothing)
