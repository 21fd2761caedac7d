"""The head of whole numbers: masses of a lattice's cells."""

import math

import pytest
import torch

from mac_policy.core.heads import Categorical, GaussianMixture, Mixed, RoundedMixture

WIDTHS, ORIGINS = [0.0, 0.5, 2e-4], [0.0, 0.1, 0.3]


def made(rows=4, components=3, seed=0):
    head = RoundedMixture(components, WIDTHS, ORIGINS)
    generator = torch.Generator().manual_seed(seed)
    return head, torch.randn(rows, 3, head.num_params, generator=generator, dtype=torch.float64)


def lattice(variable, reach=40.0):
    count = round(reach / WIDTHS[variable])
    return ORIGINS[variable] + WIDTHS[variable] * torch.arange(-count, count + 1, dtype=torch.float64)


@pytest.mark.parametrize(("variable", "reach"), [(1, 40.0), (2, 8.0)])
def test_the_masses_of_all_points_sum_to_one(variable, reach):
    head, params = made()
    params[..., 6:] = params[..., 6:].clamp(max=-0.5)
    points = lattice(variable, reach)
    found = head(params[:, variable], variables=torch.full((4,), variable)).log_prob_grid(points)
    torch.testing.assert_close(found.exp().sum(-1), torch.ones(4, dtype=torch.float64), atol=1e-6, rtol=0)


def test_a_point_has_the_mass_of_its_cell():
    head, params = made()
    mixture, x = GaussianMixture(3)(params), torch.tensor([[0.7, 0.6, 0.3002]] * 4, dtype=torch.float64)
    found = head(params).log_prob(x)
    for variable in (1, 2):
        ends = [x[:, variable] + sign * WIDTHS[variable] / 2 for sign in (1, -1)]
        above, below = (
            (
                mixture.log_weights[:, variable].exp()
                * torch.special.ndtr((end[:, None] - mixture.means[:, variable]) / mixture.log_stds[:, variable].exp())
            ).sum(-1)
            for end in ends
        )
        torch.testing.assert_close(found[:, variable].exp(), above - below, rtol=1e-6, atol=1e-12)
    torch.testing.assert_close(found[:, 0], mixture.log_prob(x)[:, 0], rtol=0, atol=0)  # no lattice: the density


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_far_tails_and_narrow_components_have_finite_logs_and_gradients(dtype):
    head, params = made()
    params = params.to(dtype)
    params[0, :, 6:] = -30.0  # the least standard deviation
    params[1, :, 6:] = 30.0
    params.requires_grad_()
    x = torch.tensor([[1e6] * 3, [-1e6] * 3, [0.1] * 3, [ORIGINS[2]] * 3], dtype=dtype)
    found = head(params).log_prob(x)
    found.sum().backward()
    assert found.isfinite().all()
    assert params.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("away", [0.0, 5.0, 29.9, 30.6, 300.0, 1e5])
def test_gradients_are_those_of_the_tail(away, dtype):
    """Far from a component d log p / d mean is about the distance to the cell's nearer edge."""
    head, params = RoundedMixture(1, [1.0], [0.0]), torch.zeros(1, 1, 3, dtype=dtype, requires_grad=True)
    found = head(params).log_prob(torch.full((1, 1), away, dtype=dtype))
    found.sum().backward()
    edge = away - 0.5
    if away > 20:
        assert float(params.grad[0, 0, 1]) == pytest.approx(edge, rel=2e-3)
        assert float(found.detach()) == pytest.approx(
            -0.5 * edge**2 - math.log(edge * math.sqrt(2 * math.pi)), rel=1e-4
        )
    else:
        phi, cdf = (getattr(torch.distributions.Normal(0.0, 1.0), name) for name in ("log_prob", "cdf"))
        ends = torch.tensor([away - 0.5, away + 0.5], dtype=torch.float64)
        mass = float(cdf(-ends)[0] - cdf(-ends)[1])
        slope = float(phi(ends)[0].exp() - phi(ends)[1].exp()) / mass
        assert float(params.grad[0, 0, 1]) == pytest.approx(slope, rel=1e-3, abs=1e-6)
        assert float(found.detach()) == pytest.approx(math.log(mass), rel=1e-4)


def test_wide_and_narrow_cells_meet():
    head, params = RoundedMixture(1, [0.03], [0.0]), torch.zeros(2, 1, 3, dtype=torch.float64)
    params[:, :, 2] = torch.tensor([[1e-6], [-1e-6]])  # a cell just below and just above `NARROW`
    first, second = head(params).log_prob(torch.tensor([[1.3], [1.3]], dtype=torch.float64))[:, 0]
    assert abs(float(first - second)) < 1e-4


def test_samples_lie_on_the_lattice_as_often_as_they_should():
    head, params = made(rows=1)
    drawn = head(params.expand(20_000, -1, -1)).sample(generator=torch.Generator().manual_seed(0))
    origins, widths = (torch.tensor(each[1:], dtype=torch.float64) for each in (ORIGINS, WIDTHS))
    steps = (drawn[:, 1:] - origins) / widths
    torch.testing.assert_close(steps, steps.round(), atol=1e-6, rtol=0)
    assert len(drawn[:, 0].unique()) == 20_000
    points = lattice(1, 3.0)
    expected = head(params[:, 1], variables=torch.tensor([1])).log_prob_grid(points)[0].exp()
    shares = torch.stack([((drawn[:, 1] - point).abs() < 1e-6).double().mean() for point in points])
    assert float((shares - expected).abs().max()) < 4 * math.sqrt(0.25 / 20_000)


def test_beside_categories_each_variable_keeps_its_lattice():
    head = Mixed([RoundedMixture(2, [1.0, 0.0, 0.0], [0.0] * 3), Categorical(3)], [0, 1, 0])
    params = torch.randn(5, 3, head.num_params, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x = torch.tensor([1.0, 2.0, 0.4], dtype=torch.float64).expand(5, 3)
    joint = head(params).log_prob(x)
    for variable in range(3):
        alone = head(params[:, variable], variables=torch.full((5,), variable)).log_prob(x[:, variable])
        torch.testing.assert_close(joint[:, variable], alone, rtol=0, atol=0)
    assert (joint[:, 0] < 0).all()
    assert torch.equal(joint[:, 2], GaussianMixture(2)(params[:, 2, :6]).log_prob(x[:, 2]))


@pytest.mark.parametrize(("widths", "origins"), [([1.0], [0.0, 1.0]), ([-1.0], [0.0]), ([math.nan], [0.0])])
def test_a_lattice_that_is_none_is_refused(widths, origins):
    with pytest.raises(ValueError, match="widths and origins must hold a finite number for each variable"):
        RoundedMixture(3, widths, origins)
    with pytest.raises(ValueError, match="the last axis must hold 3 variables"):
        made()[0](torch.zeros(2, 9))
