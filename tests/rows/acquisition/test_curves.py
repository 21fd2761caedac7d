"""Error curves and what is made of them, against a law that is known and against plain loops."""

import numpy as np
import pytest
import torch
from scipy.stats import ttest_1samp

from mac_policy.rows.acquisition.curves import AcquisitionSettings, error_curves, measured_curves
from mac_policy.rows.acquisition.experiment import target_mask
from mac_policy.rows.acquisition.report import paired_table, results_table
from mac_policy.rows.acquisition.summary import half_way, number_needed, paired_areas, summarised
from tests.rows.acquisition.test_information_gain import JointGaussian, mask


def informative():
    """The target, last, hangs on x0 most, on x1 a little, on x2 not at all."""
    covariance = torch.eye(4)
    for variable, correlation in ((0, 0.9), (1, 0.3)):
        covariance[variable, 3] = covariance[3, variable] = correlation
    return JointGaussian(covariance)


def rows_of(model, count, seed=0):
    nothing = torch.zeros(count, model.num_variables)
    return model.sample(nothing, given=nothing.bool(), generator=torch.Generator().manual_seed(seed))


def test_errors_along_an_order_are_those_of_the_law():
    model = informative()
    x = rows_of(model, 1500)
    found = error_curves(model, x, mask(4, 3), torch.tensor([2, 0, 1]).expand(1500, 3), num_samples=50)
    variances = [1.0, 1.0, 1 - 0.81, 1 - 0.81 - 0.09]
    for step, variance in enumerate(variances):
        squared, nll = found.squared[:, step].mean(), found.nll[:, step].mean()
        assert squared == pytest.approx(variance * (1 + 1 / 50), rel=0.16)
        assert nll == pytest.approx(0.5 * np.log(2 * np.pi * np.e * variance), abs=0.1)


def test_the_models_own_order_needs_fewer_variables_than_a_random_one():
    model = informative()
    settings = AcquisitionSettings(num_samples=300, prediction_samples=20, random_orders=2)
    test, train = rows_of(model, 60), rows_of(model, 20, seed=1)
    found = measured_curves(model, train, test, mask(4, 3), settings, seed=0)
    assert found["model.order"][:, 0].tolist() == [0] * 60
    assert found["shared.order"].tolist() == [[0, 1, 2]] * 60
    assert found["fixed.order"].tolist() == [[0, 1, 2]] * 60
    assert found["random.nll"].shape == (60, 4)
    record = summarised([{key: value.numpy() for key, value in found.items()}], settings.orders)["nll"]["orders"]
    assert record["model"]["fewer"]["ci95"][0] > 0.2
    assert record["random"]["fewer"] == {"mean": 0.0, "ci95": [0.0, 0.0], "per_seed": [0.0]}
    again = measured_curves(model, train, test, mask(4, 3), settings, seed=0)
    assert all(torch.equal(found[key], again[key]) for key in found)


def test_the_number_needed_is_read_off_a_curve_as_by_hand():
    curves = np.array([[4.0, 3.0, 1.0, 0.0], [4.0, 4.0, 4.0, 4.0], [1.0, 0.0, 0.0, 0.0], [4.0, 5.0, 1.0, 2.0]])
    assert number_needed(curves, np.array([2.0, 2.0, 2.0, 3.0])).tolist() == [1.5, 3.0, 0.0, 4 / 3]
    assert half_way(curves[[0, 2, 3]]).tolist() == [2.0, 0.5, 3.0]


def of_curves(*curves):
    """What was measured in each of some splits, two rows alike, of the random order; 'model' is half of it."""
    rows = [np.array([curve, curve]) for curve in curves]
    return [
        {
            f"{order}.{key}": each * share
            for key in ("squared", "nll")
            for order, share in (("random", 1), ("model", 0.5))
        }
        for each in rows
    ]


def test_an_arm_that_learns_nothing_needs_no_number_of_variables():
    orders = ("model", "random")
    found = summarised(of_curves([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]), orders)["nll"]
    assert found["half_way"] is None
    assert found["orders"]["model"]["needed"] is None
    assert found["orders"]["model"]["fewer"] is None
    assert found["orders"]["model"]["area"]["mean"] == 1.0
    record = {
        "benchmark": "b",
        "unit": {"nll": "nats"},
        "orders": dict.fromkeys(orders, ""),
        "arms": {"vae": {"nll": found}},
    }
    table = results_table(record, "nll")
    assert [list(column.cells) for column in table.columns][3] == ["-", "-"]
    assert str(table.caption).endswith("none known: vae")


def test_areas_and_the_values_of_each_split_are_those_by_hand():
    found = summarised(of_curves([4.0, 2.0, 0.0], [2.0, 1.0, 0.0], [1.0, 1.0, 1.0]), ("model", "random"))
    assert found["nll"]["orders"]["random"]["area"]["mean"] == pytest.approx((2 + 1 + 1) / 3)
    assert found["nll"]["orders"]["random"]["area"]["per_seed"] == pytest.approx([2.0, 1.0, 1.0])
    assert found["rmse"]["orders"]["random"]["area"]["per_seed"][0] == pytest.approx((2 + 2**0.5) / 3)
    assert found["nll"]["orders"]["model"]["fewer"] is None  # the third split has no half-way error
    paired = summarised(of_curves([4.0, 2.0, 0.0], [2.0, 1.0, 0.0]), ("model", "random"))["nll"]["orders"]
    assert paired["model"]["fewer"]["per_seed"] == [1.0, 1.0]
    assert paired["model"]["fewer"]["mean"] == 1.0


def test_intervals_of_areas_are_students_over_the_splits():
    rng = np.random.default_rng(0)
    per_seed = of_curves(*rng.normal([9.0, 5.0, 1.0], 0.2, size=(5, 3)))
    area = summarised(per_seed, ("model", "random"))["nll"]["orders"]["random"]["area"]
    assert area["ci95"] == pytest.approx(ttest_1samp(area["per_seed"], 0).confidence_interval())
    needed = summarised(of_curves([4.0, 2.0, 0.0], [4.0, 1.0, 0.0], [3.0, 2.0, 0.5]), ("model", "random"))["rmse"]
    for order in needed["orders"].values():
        assert order["needed"]["ci95"][0] < order["needed"]["mean"] < order["needed"]["ci95"][1]


def test_areas_of_two_arms_are_compared_pair_by_pair():
    rng = np.random.default_rng(0)
    hardness = rng.normal(0, 3, size=(5, 1))  # of the splits, which both arms share
    first, second = (of_curves(*(rng.normal([9.0, 5.0, 1.0], 0.2, size=(5, 3)) + hardness + 20)) for _ in range(2))
    orders = ("model", "random")
    found = paired_areas(first, second, orders)["nll"]["random"]
    areas = [summarised(arm, orders)["nll"]["orders"]["random"]["area"] for arm in (first, second)]
    differences = np.subtract(areas[1]["per_seed"], areas[0]["per_seed"])
    assert found["per_seed"] == pytest.approx(differences)
    assert found["ci95"] == pytest.approx(ttest_1samp(differences, 0).confidence_interval())
    assert np.ptp(found["ci95"]) < np.ptp(areas[0]["ci95"]) / 3
    reverse = paired_areas(second, first, orders)["rmse"]["model"]
    assert reverse["mean"] == pytest.approx(-paired_areas(first, second, orders)["rmse"]["model"]["mean"])
    record = {
        "benchmark": "b",
        "orders": dict.fromkeys(orders, ""),
        "paired": {"mac - vae": paired_areas(first, second, orders)},
    }
    assert list(paired_table(record).columns[0].cells) == ["mac - vae", ""]


def test_a_wrong_target_or_order_is_named():
    assert target_mask([-1, 0], 4).tolist() == [True, False, False, True]
    with pytest.raises(ValueError, match=r"target must list columns in -4..3, got 4"):
        target_mask([4], 4)
    with pytest.raises(ValueError, match="target must be some of the 4 columns, not none"):
        target_mask([], 4)
    with pytest.raises(ValueError, match=r"unknown order 'modle'; .* did you mean 'model'"):
        AcquisitionSettings(orders=("modle", "random"))
    with pytest.raises(ValueError, match="'random' among them"):
        AcquisitionSettings(orders=("model",))
