"""Intervals cover the truth as often as they say, measured by simulation; where they do not, by how much is pinned."""

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from mac_policy.common.statistics import jackknife_intervals, mean_over_seeds, share_interval, wilson_interval

TRIALS = 3000
SHAPES = [(5, 50), (3, 100)]


def normal(rng, seeds, episodes, spread=1.0, within=1.0):
    return spread * rng.normal(size=(TRIALS, seeds, 1)) + within * rng.normal(size=(TRIALS, seeds, episodes))


def near_copies(rng, seeds, episodes):
    return normal(rng, seeds, episodes, within=0.01)


def alike(rng, seeds, episodes):
    return normal(rng, seeds, episodes, spread=0.0)


def tasks_done(rng, seeds, episodes):
    """How many of four tasks; seeds differ in how likely each task is."""
    return rng.binomial(4, rng.beta(6, 4, size=(TRIALS, seeds, 1)), size=(TRIALS, seeds, episodes)) - 4 * 0.6


def one_seed_in_seven_fails(rng, seeds, episodes):
    works = rng.random((TRIALS, seeds, 1)) >= 1 / 7
    return rng.binomial(4, 0.65 * works, size=(TRIALS, seeds, episodes)) - 4 * 0.65 * 6 / 7


def coverage(law, *shape):
    """The share of trials in which the interval holds the law's mean, zero."""
    ends = np.array([mean_over_seeds(list(trial)).ci95 for trial in law(np.random.default_rng(0), *shape)])
    return np.mean((ends[:, 0] <= 0) & (ends[:, 1] >= 0))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("law", [normal, near_copies, alike, tasks_done])
def test_an_interval_over_seeds_covers_as_often_as_it_says(law, shape):
    assert 0.93 < coverage(law, *shape) < 0.97


@pytest.mark.parametrize(("shape", "measured"), [((5, 50), 0.54), ((3, 100), 0.43)])
def test_seeds_that_rarely_fail_break_every_interval_of_a_few_seeds(shape, measured):
    assert coverage(one_seed_in_seven_fails, *shape) == pytest.approx(measured, abs=0.03)


def test_arms_in_the_same_episodes_are_covered_also_beside_one_that_nothing_trains():
    """All training seeds run in the same episodes, hard or easy for all; the other arm ran once in each."""
    rng, trained, missed = np.random.default_rng(0), [], []
    for _ in range(TRIALS):
        hard = 0.5 * rng.normal(size=30)
        first = hard + 0.1 * rng.normal(size=(5, 1)) + 0.3 * rng.normal(size=(5, 30))
        gaps = first - 0.7 * hard - 0.4 * rng.normal(size=30)
        for found, values in ((trained, first), (missed, gaps)):
            both = [mean_over_seeds(list(values), shared_rows=shared).ci95 for shared in (True, False)]
            found.append([low <= 0 <= high for low, high in both])
    for found in (trained, missed):
        shared, seeds_alone = np.mean(found, 0)
        assert 0.93 < shared < 0.985
        assert seeds_alone < 0.9  # an interval over training seeds is one for these episodes


def test_paired_differences_of_five_splits_are_covered():
    rng = np.random.default_rng(0)
    splits = rng.normal(size=(TRIALS, 5, 1))  # a split is hard or easy for both
    first, second = (rng.gamma(2, size=(TRIALS, 5, 30)) + splits for _ in range(2))
    of_seeds = 0.3 * rng.normal(size=(TRIALS, 5, 1))
    assert 0.93 < coverage(lambda *_: first - second + of_seeds, 5, 30) < 0.97


def test_a_root_of_a_mean_over_five_splits_is_covered_by_the_jackknife():
    rng = np.random.default_rng(0)
    splits = np.mean((1 + 0.2 * rng.normal(size=(TRIALS, 5, 1))) * rng.normal(size=(TRIALS, 5, 60)) ** 2, 2)
    ends = np.array([jackknife_intervals(trial, np.sqrt) for trial in splits])
    assert 0.93 < np.mean((ends[:, 0] <= 1) & (ends[:, 1] >= 1)) < 0.97


@pytest.mark.parametrize("shape", SHAPES)
def test_a_share_that_differs_between_seeds_is_covered(shape):
    rng, (seeds, episodes) = np.random.default_rng(0), shape
    done = rng.binomial(episodes, rng.beta(12, 12, size=(TRIALS, seeds)))
    ends = np.array([share_interval(counts, [episodes] * seeds)[0] for counts in done.tolist()])
    assert 0.93 < np.mean((ends[:, 0] <= 0.5) & (ends[:, 1] >= 0.5)) < 0.97


# ---- the interval of a mean ----


def test_several_seeds_are_students_interval_over_their_means():
    rng = np.random.default_rng(0)
    values = [rng.normal(size=30) + 1, rng.normal(size=50) - 1, rng.normal(size=10)]
    found = mean_over_seeds(values)
    means = [of_seed.mean() for of_seed in values]
    assert found.per_seed == pytest.approx(means)
    assert found.ci95 == pytest.approx(ttest_1samp(means, 0).confidence_interval())
    assert found.se == pytest.approx(np.std(means, ddof=1) / 3**0.5)
    assert found.interval == "Student t over training seeds"
    assert mean_over_seeds([np.repeat(of_seed, 20) for of_seed in values]).ci95 == pytest.approx(found.ci95)


def test_one_seed_and_equal_seeds_are_an_interval_over_episodes_and_say_so():
    episodes = np.random.default_rng(0).integers(0, 5, 40).astype(float)
    one, equal = mean_over_seeds([episodes]), mean_over_seeds([episodes, episodes[::-1]])
    assert one.ci95 == pytest.approx(ttest_1samp(episodes, 0).confidence_interval())
    assert equal.ci95 == pytest.approx(ttest_1samp(np.tile(episodes, 2), 0).confidence_interval())
    assert one.interval == equal.interval == "Student t over episodes"
    assert mean_over_seeds([np.ones(3), np.ones(3)]).ci95 == [1, 1]


def test_a_single_episode_has_no_interval():
    found = mean_over_seeds([np.array([2.0])])
    assert (found.mean, found.se, found.ci95) == (2.0, None, None)
    for nothing in ([], [np.array([])]):
        with pytest.raises(ValueError, match="at least one"):
            mean_over_seeds(nothing)


def test_the_jackknife_of_a_linear_statistic_is_students_interval():
    units = np.random.default_rng(0).normal(size=(6, 2))
    expected = [ttest_1samp(column, 0).confidence_interval() for column in units.T]
    assert jackknife_intervals(units, lambda means: means) == pytest.approx(np.array(expected))
    assert np.isnan(jackknife_intervals(units[:1], lambda means: means)).all()


# ---- shares ----


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


def test_shares_of_one_seed_or_of_equal_seeds_are_one_binomial_sample():
    assert share_interval([3], [10]) == (list(wilson_interval(3, 10)), "Wilson")
    assert share_interval([10, 10, 10], [10, 10, 10]) == (list(wilson_interval(30, 30)), "Wilson")
    ends, kind = share_interval([10, 9, 8], [10, 10, 10])
    assert ends == [pytest.approx(ttest_1samp([1, 0.9, 0.8], 0).confidence_interval()[0]), 1.0]
    assert kind == "Student t over training seeds"
