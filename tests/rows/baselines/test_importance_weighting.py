"""VAE and MIWAE with a linear decoder, where p(anything | anything else) is a normal density."""

import math

import pytest
import torch
from torch.testing import assert_close

from mac_policy.rows.baselines import MIWAE, VAE
from mac_policy.rows.baselines.importance import Proposal, log_prior
from tests.rows.baselines.helpers import (
    BIAS,
    WEIGHT,
    ExactEncoder,
    conditional,
    covariance,
    exact_log_prob,
    generator,
    linear,
    mask,
)

QUESTIONS = [("1111", "0000"), ("0110", "0000"), ("0011", "1100"), ("1000", "0110")]


def rows(count, seed=1):
    law = torch.distributions.MultivariateNormal(BIAS, covariance())
    torch.manual_seed(seed)
    return law.sample((count,))


def asked(count):
    """One of the questions for each row."""
    chosen = [QUESTIONS[i % len(QUESTIONS)] for i in range(count)]
    return torch.stack([mask(q) for q, _ in chosen]), torch.stack([mask(g) for _, g in chosen])


@pytest.mark.parametrize("cls", [VAE, MIWAE])
def test_importance_weighting_converges_to_the_exact_likelihood(cls):
    x, (query, given) = rows(8), asked(8)
    exact = exact_log_prob(x, query, given)
    error = {}
    for samples in (4, 20_000):
        found = linear(cls, importance_samples=samples).log_prob(x, query=query, given=given, generator=generator())
        assert set(found) == {"model", "ratio"}
        error[samples] = {name: (values - exact).abs().max() for name, values in found.items()}
    for name in ("model", "ratio"):
        assert error[20_000][name] < 0.06
        assert error[4][name] > 5 * error[20_000][name]


def test_one_sample_of_the_exact_posterior_is_the_likelihood():
    weight = WEIGHT[:, 1:]
    model = linear(MIWAE, weight, importance_samples=1)
    model.encoder = ExactEncoder(model.decoder)
    x, (query, given) = rows(8), asked(8)
    exact = exact_log_prob(x, query, given, cov=covariance(weight))
    found = model.log_prob(x, query=query, given=given, generator=generator())
    assert_close(found["ratio"], exact, atol=1e-6, rtol=0)
    alone = ~given.any(1)
    assert_close(found["model"][alone], exact[alone], atol=1e-6, rtol=0)


def elbo(model, x, seen):
    """E_q log p(x_seen | z) - KL(q || prior), of one row."""
    q = model.proposal(torch.where(seen, x, 0)[None], seen[None])
    mean, std = q.mean[0], q.log_std[0].exp()
    spread = (WEIGHT.square() * std.square()).sum(1)
    terms = -0.5 * ((x - BIAS - WEIGHT @ mean).square() + spread + math.log(2 * math.pi))
    kl = 0.5 * (mean.square() + std.square() - 1 - 2 * std.log()).sum()
    return terms[seen].sum() - kl


@pytest.mark.parametrize("cls", [VAE, MIWAE])
def test_one_sample_is_the_elbo_and_more_samples_come_closer(cls):
    model, x = linear(cls), rows(1)[0]
    seen = mask("1111") if cls is VAE else mask("1101")
    copies, masks = torch.where(seen, x, 0).expand(20_000, 4), seen.expand(20_000, 4)
    with torch.no_grad():
        one, many = (model.bound(copies, masks, k, generator()) for k in (1, 8))
        expected = elbo(model, x, seen)
    exact = exact_log_prob(x[None], seen[None], ~masks[:1] & False)[0]
    assert abs(one.mean() - expected) < 4 * one.std() / math.sqrt(len(one))
    assert expected < many.mean() < exact
    loss = model(copies[:100], masks[:100], generator())
    bound = model.bound(copies[:100], masks[:100], model.training_samples, generator())
    assert_close(loss, -bound.mean() / 4)


def test_the_reported_density_integrates_to_one_over_the_answer():
    """log_prob's 'model' is a density of the answer: with the same samples it sums to one over a grid, K = 3."""
    model = linear(importance_samples=3)
    grid = torch.linspace(-20, 20, 81, dtype=torch.float64)
    x = rows(1).repeat(len(grid), 1)
    x[:, 2] = grid
    density = torch.stack(
        [
            model.log_prob(row[None], query=mask("0010"), given=mask("1101"), generator=generator())["model"][0]
            for row in x
        ]
    )
    assert_close(density.exp().sum() * 0.5, torch.tensor(1.0, dtype=torch.float64), atol=1e-3, rtol=0)


def test_weights_of_a_proposal_far_off_average_to_one_and_are_bounded():
    far = Proposal(torch.full((4000, 1), 5.0), torch.full((4000, 1), -1.0), 0.25)
    z = far.draw(8, generator())
    weights = (log_prior(z) - far.log_prob(z)).exp()
    assert weights.max() <= 4 + 1e-5
    mean = weights.mean(1)
    assert abs(mean.mean() - 1) < 4 * mean.std() / math.sqrt(len(mean))


def test_a_row_that_is_given_nothing_is_proposed_from_the_prior():
    q = linear().proposal(torch.zeros(2, 4).double(), torch.stack([mask("0000"), mask("0100")]))
    assert (q.mean[0] == 0).all()
    assert (q.log_std[0] == 0).all()
    assert (q.mean[1] != 0).all()


@pytest.mark.parametrize("given", ["0000", "1010"])
def test_imputations_have_the_conditional_mean_and_covariance(given):
    model, x, given = linear(MIWAE, importance_samples=2000), rows(1), mask(given)
    drawn = torch.cat([model.impute(x, given=given, num_samples=400, generator=generator(i))[0] for i in range(10)])
    mean, cov = conditional(x[0], ~given, given, BIAS, covariance())
    assert_close(drawn[:, ~given].mean(0), mean, atol=0.15, rtol=0)
    assert_close(drawn[:, ~given].T.cov(), cov, atol=0.4, rtol=0.1)


def test_nothing_asked_has_probability_one():
    found = linear().log_prob(rows(2), query=mask("0000"), given=mask("0101"), generator=generator())
    assert all((values == 0).all() for values in found.values())


def test_the_number_of_samples_is_what_it_says_whatever_the_orders():
    x, (query, given) = rows(4), asked(4)
    model, drawn = linear(importance_samples=4), []
    draw = model._weighted_samples
    model._weighted_samples = lambda *parts: drawn.append(parts[2]) or draw(*parts)
    once = model.log_prob(x, query=query, given=given, generator=generator())
    again = model.log_prob(x, query=query, given=given, generator=generator(), orders=5)
    assert all(torch.equal(once[name], again[name]) for name in once)
    assert set(drawn) == {4}
