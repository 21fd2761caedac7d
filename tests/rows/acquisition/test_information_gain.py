"""The reward against laws whose mutual information is known, and orders that follow from it."""

import itertools
import math
from functools import partial

import pytest
import torch

from mac_policy.rows.acquisition.information_gain import greedy_order, information_gain, known_after, random_order


class JointGaussian:
    """N(0, covariance), answered by Schur complements: nothing of the library's own is used."""

    def __init__(self, covariance):
        self.covariance, self.num_variables = covariance.double(), len(covariance)

    def sample(self, x, given, *, num_samples=1, steps=None, generator=None):
        x, given = x.double().repeat(num_samples, 1), given.repeat(num_samples, 1)
        out = x.clone()
        for pattern in given.unique(dim=0):
            rows, known, rest = (given == pattern).all(1), pattern.nonzero()[:, 0], (~pattern).nonzero()[:, 0]
            means, covariance = self.for_rows(x[rows], rest, known)
            noise = torch.randn(means.shape, generator=generator, dtype=torch.double)
            out[rows.nonzero(), rest] = means + noise @ torch.linalg.cholesky(covariance).T
        return out if num_samples == 1 else out.view(num_samples, -1, self.num_variables)

    def for_rows(self, x, query, given):
        if len(given) == 0:
            return torch.zeros(len(x), len(query), dtype=torch.double), self.covariance[query][:, query]
        c = self.covariance
        gain = torch.linalg.solve(c[given][:, given], c[given][:, query]).T
        return x[:, given] @ gain.T, c[query][:, query] - gain @ c[given][:, query]

    def log_prob(self, x, query, given, *, generator=None):
        out = torch.zeros(len(x), dtype=torch.double)
        for pattern in torch.cat([query, given], 1).unique(dim=0):
            asked, known = pattern.view(2, -1)
            rows = (query == asked).all(1) & (given == known).all(1)
            means, covariance = self.for_rows(x[rows].double(), asked.nonzero()[:, 0], known.nonzero()[:, 0])
            law = torch.distributions.MultivariateNormal(torch.zeros(means.shape[1]).double(), covariance)
            out[rows] = law.log_prob(x[rows][:, asked].double() - means)
        return {"model": out}

    def information(self, target, candidate, seen):
        """I(target; candidate | seen) by determinants."""
        t, i, o = list(target), [candidate], list(seen)
        return 0.5 * (self.log_det(t + o) + self.log_det(i + o) - self.log_det(t + i + o) - self.log_det(o))

    def log_det(self, index):
        return float(torch.logdet(self.covariance[index][:, index])) if index else 0.0


class Table:
    """A joint law over binary variables, given as the probability of every row."""

    def __init__(self, probabilities):
        self.p = probabilities.double() / probabilities.sum()
        self.num_variables = self.p.ndim
        self.rows = torch.tensor(list(itertools.product((0.0, 1.0), repeat=self.num_variables)), dtype=torch.double)

    def agree(self, x, mask):
        """Which rows of the table agree with each row of x on the mask. (B, 2^N)"""
        return ((self.rows[None] == x[:, None].double()) | ~mask[:, None]).all(2).double()

    def sample(self, x, given, *, num_samples=1, steps=None, generator=None):
        x, given = x.double().repeat(num_samples, 1), given.repeat(num_samples, 1)
        weights = self.agree(x, given) * self.p.reshape(-1)
        drawn = self.rows[torch.multinomial(weights, 1, generator=generator)[:, 0]]
        return drawn if num_samples == 1 else drawn.view(num_samples, -1, self.num_variables)

    def log_prob(self, x, query, given, *, generator=None):
        both, known = (self.agree(x, mask) @ self.p.reshape(-1) for mask in (query | given, given))
        return {"model": both.log() - known.log()}

    def information(self, x, target, candidate, seen):
        """I(target; candidate | x_seen = its value in this row), a plain sum over the table."""
        total, cells = 0.0, range(len(self.rows))
        p = self.p.reshape(-1).tolist()
        fits = [k for k in cells if all(self.rows[k, v] == x[v] for v in seen)]
        mass = sum(p[k] for k in fits)
        for t in itertools.product((0.0, 1.0), repeat=len(target)):
            for i in (0.0, 1.0):
                of_t = [k for k in fits if all(self.rows[k, v] == a for v, a in zip(target, t, strict=True))]
                of_i = [k for k in fits if self.rows[k, candidate] == i]
                joint = sum(p[k] for k in set(of_t) & set(of_i)) / mass
                apart = sum(p[k] for k in of_t) / mass * sum(p[k] for k in of_i) / mass
                total += joint * math.log(joint / apart) if joint else 0.0
        return total


def gaussian(n=5, seed=3):
    factor = torch.randn(n, n, generator=torch.Generator().manual_seed(seed), dtype=torch.double)
    return JointGaussian(factor @ factor.T + 0.3 * torch.eye(n))


def mask(n, *members):
    return torch.isin(torch.arange(n), torch.tensor(members, dtype=torch.long))


@pytest.mark.parametrize("target", [(4,), (3, 4)])
def test_the_reward_is_the_mutual_information_of_a_joint_gaussian(target):
    """Rows with different things seen, at once; within 5 standard errors of the closed form."""
    model, generator = gaussian(), torch.Generator().manual_seed(0)
    seen = torch.stack([mask(5), mask(5, 0), mask(5, 1, 2)])
    x = torch.randn(3, 5, generator=generator, dtype=torch.double)
    found = information_gain(model, x, given=seen, target=mask(5, *target), num_samples=20_000, generator=generator)
    for row, variable in itertools.product(range(3), range(5)):
        if seen[row, variable] or variable in target:
            assert found[row, variable] == -math.inf
        else:
            exact = model.information(target, variable, seen[row].nonzero()[:, 0].tolist())
            assert found[row, variable] == pytest.approx(exact, abs=5 * 1.2 / 141)


def test_the_reward_of_a_discrete_law_is_what_enumeration_gives():
    generator = torch.Generator().manual_seed(1)
    model = Table(torch.rand(2, 2, 2, 2, generator=generator) ** 3)
    x = torch.tensor([[0.0, 1.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0]])
    seen = torch.stack([mask(4), mask(4, 1)])
    found = information_gain(model, x, given=seen, target=mask(4, 3), num_samples=60_000, generator=generator)
    for row, variable in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 2)):
        exact = model.information(x[row], (3,), variable, seen[row].nonzero()[:, 0].tolist())
        assert found[row, variable] == pytest.approx(exact, abs=0.012)


def test_unseen_values_are_not_read_and_portions_do_not_matter_to_what_is_answered():
    model, seen = gaussian(), mask(5, 1).expand(4, 5)
    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    hidden = torch.where(seen, x, math.nan)
    gains = [
        information_gain(
            model, values, given=seen, target=mask(5, 4), num_samples=64, generator=torch.Generator().manual_seed(2)
        )
        for values in (x, hidden)
    ]
    assert torch.equal(*gains)
    few = information_gain(model, x, given=seen, target=mask(5, 4), num_samples=4000, rows_per_pass=4000)
    exact = torch.tensor([model.information((4,), i, [1]) if i in (0, 2, 3) else -math.inf for i in range(5)])
    assert torch.allclose(few, exact.double().expand(4, 5), atol=0.15)


def test_only_candidates_have_a_reward():
    found = information_gain(
        gaussian(), torch.zeros(1, 5), given=mask(5, 0), target=mask(5, 4), candidates=mask(5, 2), num_samples=8
    )
    assert found.isfinite().tolist() == [[False, False, True, False, False]]


def test_the_greedy_order_follows_each_rows_own_values():
    """x0 says which of x1 and x2 holds the target: what comes second depends on the value of x0."""
    p = torch.zeros(2, 2, 2, 2)
    for a, b, c in itertools.product((0, 1), repeat=3):
        p[a, b, c, (b, c)[a]] = 1.0
    p += 1e-3
    x = torch.tensor([[0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 0.0, 0.0]])
    # Before x0 is known, x1 and x2 tell a little each; with it the one that it points at tells all.
    seen = mask(4, 0).expand(2, 4)
    gains = information_gain(Table(p), x, given=seen, target=mask(4, 3), num_samples=512)
    assert gains.argmax(1).tolist() == [1, 2]
    order = greedy_order(Table(p), x, mask(4, 3), reward=partial(information_gain, num_samples=512))
    assert order.sort(1).values.tolist() == [[0, 1, 2]] * 2
    shared = greedy_order(Table(p), x, mask(4, 3), shared=True, reward=partial(information_gain, num_samples=64))
    assert torch.equal(shared[0], shared[1])


def test_an_independent_variable_is_looked_at_last():
    covariance = torch.eye(4)
    covariance[0, 3] = covariance[3, 0] = 0.9
    covariance[1, 3] = covariance[3, 1] = 0.3
    reward = partial(information_gain, num_samples=2000)
    order = greedy_order(JointGaussian(covariance), torch.zeros(6, 4), mask(4, 3), reward=reward)
    assert order[:, 0].tolist() == [0] * 6
    assert order[:, 2].tolist() == [2] * 6


def test_a_generator_decides_the_reward():
    one, same, other = (
        information_gain(
            gaussian(),
            torch.zeros(2, 5),
            given=mask(5, 0),
            target=mask(5, 4),
            num_samples=8,
            generator=torch.Generator().manual_seed(s),
        )
        for s in (0, 0, 1)
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_orders_as_masks():
    order = random_order(500, mask(4, 1), torch.Generator().manual_seed(0))
    assert order.sort(1).values.tolist() == [[0, 2, 3]] * 500
    assert all(130 < int((order[:, 0] == v).sum()) < 205 for v in (0, 2, 3))
    assert torch.equal(known_after(order, 3, 4), ~mask(4, 1).expand(500, 4))
    assert torch.equal(known_after(order, 1, 4).long().argmax(1), order[:, 0])
    assert not known_after(order, 0, 4).any()


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"given": (4,)}, "target and given must not overlap: variable 4 of row 0"),
        ({"target": ()}, "target of row 0 is empty"),
        ({"candidates": (0, 1)}, "candidates and given or target must not overlap: variable 0 of row 0"),
        ({"num_samples": 0}, "num_samples must be a whole number of at least 1, got 0"),
    ],
)
def test_a_wrong_question_is_named(question, message):
    masks = {"given": (0,), "target": (4,)} | question
    options = {"num_samples": masks.pop("num_samples", 4)}
    named = {name: mask(5, *members) for name, members in masks.items()}
    with pytest.raises(ValueError, match=message):
        information_gain(gaussian(), torch.zeros(2, 5), **named, **options)
