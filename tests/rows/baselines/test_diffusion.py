"""The schedule's closed forms, and a DDPM that knows the law of its data."""

import math
from collections import Counter
from itertools import pairwise

import pytest
import torch
from torch.testing import assert_close

from mac_policy.core.heads import DiscretizedLogisticMixture, Gaussian
from mac_policy.rows.baselines import DDPM
from mac_policy.rows.baselines.schedule import log_normal_mass, make_schedule, repaint_times
from tests.rows.baselines.helpers import MLP, exact_ddpm, exact_log_prob, generator, mask

CORRELATED = torch.tensor([[1.0, 0.8], [0.8, 1.0]], dtype=torch.float64)


@pytest.mark.parametrize("kind", ["linear", "cosine"])
@pytest.mark.parametrize("steps", [1, 10, 1000])
def test_a_schedule_goes_from_the_values_to_noise(kind, steps):
    schedule = make_schedule(steps, kind)
    assert schedule.signal[0] == 1
    assert (schedule.signal.diff() < 0).all()
    if steps > 1:
        assert 0 < schedule.signal[-1] < 2e-3
    t = torch.arange(1, steps + 1)
    assert_close((1 - schedule.beta(t)).cumprod(0), schedule.signal[1:])


def test_the_step_back_is_bayes_rule():
    """(x_{t-1}, x_t) given x_0 are jointly normal: condition the one on the other."""
    schedule, x0, xt = make_schedule(20), 0.7, -1.3
    for t in (1, 2, 11, 20):
        before, beta = schedule.signal[t - 1], schedule.beta(torch.tensor(t))
        mean, cov = before.sqrt() * x0, 1 - before
        gain = (1 - beta).sqrt() * cov / ((1 - beta) * cov + beta)
        expected = mean + gain * (xt - (1 - beta).sqrt() * mean)
        found = schedule.posterior_mean(torch.tensor([[x0]]).double(), torch.tensor([[xt]]).double(), torch.tensor([t]))
        assert_close(found[0, 0], expected)
        assert_close(schedule.posterior_variance(torch.tensor(t)), cov - gain * (1 - beta).sqrt() * cov)


def test_noising_twice_is_noising_once():
    schedule, n = make_schedule(30), 200_000
    x = torch.full((n, 1), 2.0, dtype=torch.float64)
    noise = torch.randn(3, n, 1, generator=generator(), dtype=torch.float64)
    end = torch.full((n,), 12)
    twice = schedule.noised(schedule.noised(x, noise[0], 0, end - 7), noise[1], 5, end)
    once = schedule.noised(x, noise[2], 0, end)
    assert_close(twice.mean(), once.mean(), atol=0.01, rtol=0)
    assert_close(twice.std(), once.std(), atol=0.01, rtol=0)


def test_fewer_steps_are_some_of_the_times():
    whole = make_schedule(100)
    few = whole.respaced(7)
    assert few.num_steps == 7
    assert (few.full_times[0], few.full_times[-1]) == (0, 100)
    assert torch.equal(few.signal, whole.signal[few.full_times])
    assert torch.equal(whole.respaced(500).full_times, whole.full_times)


@pytest.mark.parametrize(("steps", "jump", "resamplings"), [(20, 5, 3), (50, 10, 10), (7, 10, 4), (12, 1, 2)])
def test_repaint_goes_down_every_stretch_as_often_as_asked_but_the_first(steps, jump, resamplings):
    times = repaint_times(steps, jump, resamplings)
    assert (times[0], times[-1]) == (steps, 0)
    moves = [after - now for now, after in pairwise(times)]
    assert set(moves) <= {-1, jump}
    down = Counter(now for now, after in pairwise(times) if after < now)
    starts = range(0, steps - jump, jump)
    for t in range(1, steps + 1):
        again = any(start < t <= start + jump for start in starts)
        assert down[t] == (resamplings if again else 1)


@pytest.mark.parametrize("steps", [None, 3])
def test_the_bound_of_standard_normal_rows_is_their_likelihood(steps):
    """With the best denoiser and variance beta the steps back are exact, and the bound has no gap in the mean."""
    model = exact_ddpm(torch.eye(2, dtype=torch.float64), num_steps=6)
    x = torch.tensor([0.3, -1.7], dtype=torch.float64).expand(20_000, 2)
    found = model.log_prob(
        x, query=mask("11"), given=mask("00"), generator=generator(), steps=steps, step_generator=generator(1)
    )["model"]
    exact = -0.5 * x[0].square().sum() - math.log(2 * math.pi)
    assert abs(found.mean() - exact) < 4 * found.std() / math.sqrt(len(found))


def test_the_bound_of_correlated_rows_is_below_their_likelihood_and_close():
    model = exact_ddpm(CORRELATED, num_steps=150)
    x = torch.tensor([[0.3, -0.7], [1.5, 1.0]], dtype=torch.float64).repeat(1000, 1)
    found = model.log_prob(x, query=mask("11"), given=mask("00"), generator=generator())["model"].view(-1, 2)
    exact = exact_log_prob(x[:2], mask("11").expand(2, 2), mask("00").expand(2, 2), torch.zeros(2).double(), CORRELATED)
    error = found.std(0) / math.sqrt(len(found))
    assert (found.mean(0) < exact + 4 * error).all()
    assert (found.mean(0) > exact - 0.1).all()


@pytest.mark.parametrize("steps", [None, 30])
def test_samples_have_the_law_that_the_denoiser_knows(steps):
    model = exact_ddpm(CORRELATED, num_steps=100)
    drawn = model.sample(torch.zeros(4000, 2).double(), given=mask("00"), generator=generator(), steps=steps)
    assert_close(drawn.mean(0), torch.zeros(2).double(), atol=0.07, rtol=0)
    assert_close(drawn.T.cov(), CORRELATED, atol=0.1, rtol=0)
    cold = model.sample(
        torch.zeros(1000, 2).double(), given=mask("00"), temperature=0.25, generator=generator(), steps=steps
    )
    assert_close(cold.std(0), 0.5 * drawn.std(0), atol=0.05, rtol=0)  # of normal numbers it is exact


def test_repaint_of_a_correlated_pair_has_the_conditional_mean():
    x = torch.tensor([[1.5, math.nan]], dtype=torch.float64).expand(1500, 2)
    error = {}
    for resamplings in (1, 10):
        model = exact_ddpm(CORRELATED, num_steps=60, jump_length=5, resamplings=resamplings)
        drawn = model.sample(x, given=mask("10"), generator=generator())
        error[resamplings] = abs(drawn[:, 1].mean() - 0.8 * 1.5)
        assert torch.equal(drawn[:, 0], x[:, 0])
    assert error[10] < 0.1
    assert error[10] < 0.5 * error[1]  # this is what going back and forth is for
    assert abs(drawn[:, 1].std() - 0.6) < 0.12


def test_repaint_in_fewer_steps_covers_the_same_time_in_a_jump_and_stays_near_the_conditional():
    """Of N(1.35, 0.19); jumps of as many steps as in the whole schedule give 0.88 and 0.38."""
    law = torch.tensor([[1.0, 0.9], [0.9, 1.0]], dtype=torch.float64)
    model = exact_ddpm(law, num_steps=100, jump_length=10, resamplings=10)
    x = torch.tensor([[1.5, math.nan]], dtype=torch.float64).expand(3000, 2)
    found = {steps: model.sample(x, given=mask("10"), generator=generator(), steps=steps)[:, 1] for steps in (None, 20)}
    for drawn in found.values():
        assert abs(drawn.mean() - 1.35) < 0.15
        assert abs(drawn.var() - 0.19) < 0.06
    assert abs(found[20].mean() - found[None].mean()) < 0.08


@pytest.mark.parametrize(("steps", "passes"), [(20, 182), (2, 11)])
def test_filling_in_takes_each_step_as_often_as_it_resamples_but_the_first_stretch(steps, passes, monkeypatch):
    model = exact_ddpm(CORRELATED, num_steps=100, jump_length=10, resamplings=10)
    asked = []
    monkeypatch.setattr(model, "predicted_noise", lambda x, t: asked.append(1) or torch.zeros_like(x))
    model.sample(torch.zeros(1, 2).double(), given=mask("10"), steps=steps, generator=generator())
    assert len(asked) == passes


def test_the_last_step_to_levels_is_a_distribution_over_them():
    model = DDPM((1,), 9, DiscretizedLogisticMixture(9), MLP, num_steps=5)
    levels = torch.arange(9)[:, None]
    for mean, log_std in ((0.1, -1.0), (-3.0, -4.0), (0.99, 0.5)):
        clean = model._numbers(levels)
        mass = model._log_prob_of_values(levels, clean, torch.full_like(clean, mean), log_std)
        assert mass.isfinite().all()
        assert_close(mass.exp().sum(), torch.tensor(1.0))
    assert torch.equal(model._values(model._numbers(levels)), levels)


def test_the_mass_of_an_interval_is_exact_in_both_tails():
    edges = torch.tensor([-40.0, -39.9, -1.0, 0.5, 3.0, 8.0, 8.1, 37.9, 38.0], dtype=torch.float64)
    lower, upper = edges[:-1], edges[1:]
    mass = log_normal_mass(lower, upper)
    assert mass.isfinite().all()
    assert_close(mass, log_normal_mass(-upper, -lower))
    middle = slice(1, 4)
    expected = torch.special.ndtr(upper[middle]) - torch.special.ndtr(lower[middle])
    assert_close(mass[middle].exp(), expected)


def test_parts_of_a_row_have_no_likelihood():
    model = DDPM((3,), None, Gaussian(), MLP, num_steps=5)
    x = torch.zeros(2, 3)
    for query, given in (("110", "001"), ("100", "000")):
        with pytest.raises(ValueError, match="whole rows only: query every variable, given nothing"):
            model.log_prob(x, query=mask(query), given=mask(given))
    with pytest.raises(ValueError, match="cannot take missing values"):
        model(x, model.draw(2, generator()), missing=torch.ones(2, 3, dtype=torch.bool))
