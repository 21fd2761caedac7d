import math

import numpy as np
import pytest
import torch
from scipy.stats import chi2
from torch.utils._python_dispatch import TorchDispatchMode

from mac_policy.common.checks import check_count, check_positive
from mac_policy.core import orders
from mac_policy.core.masks import Bernoulli, FixedMasks, UniformCardinality, all_masks, mask_codes
from mac_policy.core.subsets import draw_below, draw_linear, first_elements, subsets_within, uniform_subsets

SUBSETS = torch.tensor([[True, True, False, False], [False, True, False, True]])
LAWS = [
    UniformCardinality(4),
    UniformCardinality(4, 0, 3),
    UniformCardinality(1),
    Bernoulli(4, 0.3),
    Bernoulli(3, 1.0),
    FixedMasks(SUBSETS),
    FixedMasks(SUBSETS, torch.tensor([1.0, 3.0])),
]


def chi_square_p(counts: torch.Tensor, law: torch.Tensor) -> float:
    """p-value of observed counts under a law; cells of probability zero must be empty."""
    assert counts[law == 0].sum() == 0
    expected = law[law > 0] * counts.sum()
    statistic = float(((counts[law > 0] - expected) ** 2 / expected).sum())
    return float(chi2.sf(statistic, max(len(expected) - 1, 1)))


@pytest.mark.parametrize("masks", LAWS, ids=lambda m: f"{type(m).__name__}{m.num_variables}")
def test_samples_follow_log_prob_which_sums_to_one(masks):
    law = masks.log_prob(all_masks(masks.num_variables)).exp()
    assert law.sum().item() == pytest.approx(1, abs=1e-12)
    drawn = masks.sample(50_000, torch.Generator().manual_seed(1))
    assert drawn.dtype == torch.bool
    assert chi_square_p(torch.bincount(mask_codes(drawn), minlength=len(law)), law) > 1e-4


def test_uniform_cardinality_is_the_papers_law():
    law = UniformCardinality(12).log_prob(all_masks(12)).exp()
    assert law[1].item() == pytest.approx(1 / 144)
    assert -(law[1:] * law[1:].log()).sum().item() == pytest.approx(7.212, abs=5e-4)


@pytest.mark.parametrize("n", [1, 7, 300])
def test_uniform_subsets_have_exactly_the_wanted_size(n):
    sizes = torch.arange(n + 1).repeat(20)
    assert torch.equal(uniform_subsets(sizes, n, torch.Generator().manual_seed(0)).sum(1), sizes)


def test_subsets_within_stay_in_their_region_at_the_wanted_size():
    g = torch.Generator().manual_seed(0)
    regions = torch.rand((500, 12), generator=g) < 0.5
    sizes = draw_below(regions.sum(1) + 1, g)
    subsets = subsets_within(regions, sizes, g)
    assert torch.equal(subsets.sum(1), sizes)
    assert not (subsets & ~regions).any()


def test_first_elements_keeps_the_smallest():
    subset = torch.tensor([[False, True, True, False, True]])
    assert first_elements(subset, torch.tensor([2])).tolist() == [[False, True, True, False, False]]
    assert not first_elements(subset, torch.tensor([0])).any()


@pytest.mark.parametrize("offset", [0, 1, 5])
def test_draw_linear_has_linearly_growing_probabilities(offset):
    m = 6
    a, limits = torch.full((60_000,), offset), torch.full((60_000,), m)
    counts = torch.bincount(draw_linear(a, limits, torch.Generator().manual_seed(0)), minlength=m)
    law = torch.arange(m, dtype=torch.float64) + offset
    assert chi_square_p(counts, law / law.sum()) > 1e-4


def test_draw_linear_of_a_single_value():
    assert draw_linear(torch.ones(50).long(), torch.ones(50).long()).eq(0).all()


@pytest.mark.parametrize("masks", LAWS, ids=lambda m: type(m).__name__)
def test_same_seed_same_masks_and_global_state_untouched(masks):
    before = torch.get_rng_state()
    first, second = (masks.sample(100, torch.Generator().manual_seed(5)) for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("n", [14, 70])
def test_a_long_list_of_masks_is_looked_up_in_little_memory(n):
    g = torch.Generator().manual_seed(0)
    known = torch.rand((300, n), generator=g) < 0.5
    known[150:] = known[:150]  # a mask may be listed twice
    probabilities = torch.rand(300, generator=g, dtype=torch.float64)
    asked = torch.cat([known[100:200], torch.rand((2000, n), generator=g) < 0.5])
    plain = [
        sum(p for k, p in zip(known.tolist(), probabilities.tolist(), strict=True) if k == a) for a in asked.tolist()
    ]
    with Largest() as largest:
        found = FixedMasks(known, probabilities).log_prob(asked).exp()
    torch.testing.assert_close(found, torch.tensor(plain, dtype=torch.float64) / probabilities.sum())
    assert largest.size <= 2 * len(asked) * n


class Largest(TorchDispatchMode):
    """Notes how many entries the largest tensor made has."""

    size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for made in out if isinstance(out, tuple) else (out,):
            if isinstance(made, torch.Tensor):
                self.size = max(self.size, made.numel())
        return out


def test_sizes_may_be_numpys():
    assert UniformCardinality(np.int64(4), np.int32(1)).sample(np.int64(3)).shape == (3, 4)
    assert type(check_count("n", np.int64(4))) is int
    assert check_positive("t", np.float32(0.5)) == 0.5


@pytest.mark.parametrize(
    "value", [True, np.bool_(True), 1.0, np.float64(2.0), "3", None, [1], torch.tensor(3), math.nan]
)
def test_what_is_no_whole_number_is_no_count(value):
    with pytest.raises(ValueError, match="n must be a whole number of at least 1, got"):
        check_count("n", value)


@pytest.mark.parametrize("value", [True, "1", None, 0, -1.0, math.nan, math.inf, [1.0]])
def test_what_is_no_number_above_zero_is_not_positive(value):
    with pytest.raises(ValueError, match="t must be a finite number above 0, got"):
        check_positive("t", value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: UniformCardinality(0), "num_variables must be a whole number of at least 1, got 0"),
        (lambda: UniformCardinality(3, 2, 1), "got 2, 1"),
        (lambda: UniformCardinality(3, 0, 4), "<= 3, got 0, 4"),
        (lambda: Bernoulli(3, 1.2), r"\[0, 1\], got 1.2"),
        (lambda: Bernoulli(3, math.nan), "got nan"),
        (lambda: Bernoulli(3, "a"), r"\[0, 1\], got 'a'"),
        (lambda: UniformCardinality(3, 1.5), "low must be a whole number of at least 0, got 1.5"),
        (lambda: UniformCardinality(3, 1, "3"), "high must be .* got '3'"),
        (lambda: UniformCardinality(3).sample(-1), "n must be .* at least 0, got -1"),
        (lambda: Bernoulli(3, 0.5).sample(-1), "n must be .* at least 0, got -1"),
        (lambda: FixedMasks(SUBSETS).sample(-1), "n must be .* at least 0, got -1"),
        (lambda: FixedMasks("ab"), "masks must be .* got 'ab'"),
        (lambda: FixedMasks(SUBSETS, "ab"), "probabilities must be .* got 'ab'"),
        (lambda: FixedMasks(torch.zeros(0, 3, dtype=torch.bool)), r"got \(0, 3\)"),
        (lambda: FixedMasks(torch.zeros(2, 3)), "torch.bool"),
        (lambda: FixedMasks(SUBSETS, torch.tensor([1.0])), "2 numbers"),
        (lambda: FixedMasks(SUBSETS, torch.tensor([0.0, 0.0])), "sum > 0"),
        (lambda: FixedMasks(SUBSETS, torch.tensor([-1.0, 2.0])), ">= 0"),
        (lambda: UniformCardinality(3).log_prob(torch.zeros(2, 4, dtype=torch.bool)), r"\(2, 4\)"),
        (lambda: orders.strided(4, 0), "stride must be a whole number of at least 1, got 0"),
        (lambda: orders.lexicographic(0), "num_variables"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(("n", "stride"), [(10, 3), (10, 10), (10, 25), (1, 1), (250, 25)])
def test_strided_order_takes_every_kth_first(n, stride):
    order = orders.strided(n, stride)
    assert sorted(order.tolist()) == list(range(n))
    assert order.tolist() == sorted(range(n), key=lambda i: (i % stride, i))


def test_positions_invert_an_order():
    order = orders.random(20, torch.Generator().manual_seed(0))
    assert torch.equal(orders.positions(order)[order], torch.arange(20))
