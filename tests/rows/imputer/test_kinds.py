"""Categories, whole numbers and scikit-learn's parameters of an imputer."""

import os

import numpy as np
import pandas as pd
import pytest

from mac_policy import Imputer
from tests.rows.helpers import threads_of_fit

TINY = {"steps": 3, "width": 8, "depth": 1, "num_components": 2, "batch_size": 16, "random_state": 0}


def frame(rows=120, seed=0, share=0.2):
    """Columns of all kinds; colour and flag follow from size."""
    rng = np.random.default_rng(seed)
    size = rng.normal(size=rows)
    found = pd.DataFrame(
        {
            "size": size,
            "count": pd.array(np.round(3 * size + 10).astype(int), dtype="Int64"),
            "colour": pd.Categorical.from_codes((size > 0).astype(int), ["blue", "red"]),
            "name": np.where(size > 0.5, "big", np.where(size < -0.5, "small", "middle")),
            "flag": pd.array(size > 0, dtype="boolean"),
        }
    )
    return found.mask(rng.random(found.shape) < share)


@pytest.fixture(scope="module")
def fitted():
    return Imputer(steps=300, random_state=0).fit(frame(300))


def test_kinds_stay_and_categories_are_imputed_with_their_classes(fitted):
    holed, whole = frame(200, seed=1), frame(200, seed=1, share=0)
    found = fitted.transform(holed)
    assert found.notna().all(axis=None)
    assert (found.dtypes == holed.dtypes).all()
    for name, column in holed.items():
        seen = column.notna()
        assert (found[name][seen] == column[seen]).all()
    for name in ("colour", "name", "flag"):
        gone = holed[name].isna() & holed["size"].notna()
        assert (found[name][gone] == whole[name][gone]).mean() > 0.85, name
    gone = holed["count"].isna() & holed["size"].notna()
    assert (found["count"][gone] - whole["count"][gone]).abs().mean() < 0.8


def test_samples_hold_classes_and_numbers(fitted):
    draws = fitted.sample(frame(5, seed=2, share=1), n_samples=40)
    assert draws.shape == (40, 5, 5)
    assert set(draws[..., 2].ravel()) == {"blue", "red"}
    assert set(draws[..., 4].ravel()) == {True, False}
    assert all(float(value).is_integer() for value in draws[..., 1].ravel())
    agree = (draws[..., 0] > 0) == (draws[..., 2] == "red")
    assert agree.mean() > 0.8


def test_probabilities_of_classes(fitted):
    holed = frame(50, seed=3)
    found = fitted.class_probabilities(holed)
    assert {name: each.shape for name, each in found.items()} == {
        "colour": (50, 2), "name": (50, 3), "flag": (50, 2),
    }  # fmt: skip
    for each in found.values():
        assert np.allclose(each.sum(1), 1)
    colour, seen = found["colour"], holed["colour"].notna()
    assert (colour[seen].max(1) == 1).all()
    filled = fitted.transform(holed)["colour"]
    assert (filled[~seen] == np.array(["blue", "red"])[colour[~seen].argmax(1)]).all()


def test_scores_of_categories_are_probabilities(fitted):
    """p(colour) sums to one over the classes."""
    rows = frame(2, share=1)
    rows["colour"] = pd.Categorical(["blue", "red"], ["blue", "red"])
    assert np.exp(fitted.score_samples(rows)).sum() == pytest.approx(1, abs=1e-6)


def test_an_unseen_class_names_column_and_class(fitted):
    holed = frame(20)
    holed["name"] = holed["name"].where(holed.index != 3, "bigg")
    with pytest.raises(ValueError, match=r"row 3, column 'name' has the class 'bigg', which fit has not seen.*'big'"):
        fitted.transform(holed)


def test_arrays_and_lists_of_texts():
    rows = [["a", 1.0], ["b", 2.0], [None, 1.1], ["b", None]] * 10
    found = Imputer(**TINY).fit_transform(rows)
    assert found.dtype == object
    assert set(found[:, 0]) == {"a", "b"}
    only = np.array([["a", "x"], ["b", "y"]] * 20)
    imputer = Imputer(**TINY, missing_values="").fit(only)
    only[0, 0] = ""
    assert imputer.transform(only)[0, 0] in ("a", "b")
    assert imputer.sample(only, 2).shape == (2, 40, 2)


def test_declared_kinds():
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.integers(0, 5, 80), rng.integers(0, 3, 80)]).astype(float)
    holed = np.where(rng.random(table.shape) < 0.2, np.nan, table)
    plain = Imputer(**TINY).fit_transform(holed)
    assert (plain != np.rint(plain)).any()
    found = Imputer(**TINY, kinds={0: "integer", 1: "categorical"}).fit_transform(holed)
    assert (found == np.rint(found).astype(float)).all()
    assert set(found[:, 1]) <= {0.0, 1.0, 2.0}
    with pytest.raises(ValueError, match="there is no column 7"):
        Imputer(**TINY, kinds={7: "integer"}).fit(holed)


def test_bounds_hold_for_imputed_numbers_alone():
    rng = np.random.default_rng(0)
    table = np.where(rng.random((60, 3)) < 0.3, np.nan, rng.normal(size=(60, 3)))
    for low, high in ((-0.1, 0.2), ([-0.1] * 3, np.full(3, 0.2)), ("seen", "seen")):
        imputer = Imputer(**TINY, min_value=low, max_value=high).fit(table)
        ends = [np.nanmin(table, 0), np.nanmax(table, 0)] if low == "seen" else [np.full(3, -0.1), np.full(3, 0.2)]
        for found in (imputer.transform(table), *imputer.sample(table, 20)):
            assert np.array_equal(found[~np.isnan(table)], table[~np.isnan(table)])
            gone = np.isnan(table)
            assert (found >= ends[0] - 1e-12)[gone].all()
            assert (found <= ends[1] + 1e-12)[gone].all()
    for wrong, message in (("sen", "min_value must be a number, 3 numbers"), ([1, 2], "got"), (5, "above max_value")):
        with pytest.raises(ValueError, match=message):
            Imputer(**TINY, min_value=wrong, max_value=1.0).fit(table)


def test_a_marker_of_missing_values():
    rng = np.random.default_rng(0)
    table = np.where(rng.random((40, 3)) < 0.3, np.nan, rng.normal(size=(40, 3)))
    expected = Imputer(**TINY).fit_transform(table)
    marked = np.where(np.isnan(table), -999.0, table)
    assert np.array_equal(Imputer(**TINY, missing_values=-999).fit_transform(marked), expected)
    found = Imputer(**TINY, missing_values=-999).fit_transform(pd.DataFrame(marked, columns=list("abc")))
    assert np.array_equal(found.to_numpy(), expected)


def test_indicators_of_missing_values():
    holed = frame(60).assign(whole=1.5)
    imputer = Imputer(**TINY, add_indicator=True).fit(holed)
    found = imputer.transform(holed)
    names = [f"missingindicator_{name}" for name in holed.columns[:-1]]
    assert list(imputer.get_feature_names_out()) == [*holed.columns, *names] == list(found.columns)
    assert np.array_equal(found[names].to_numpy(bool), holed.iloc[:, :-1].isna().to_numpy())
    array = np.where(np.random.default_rng(0).random((40, 2)) < 0.3, np.nan, 1.0 + np.arange(80).reshape(40, 2))
    found = Imputer(**TINY, add_indicator=True).fit_transform(array)
    assert found.shape == (40, 4)
    assert np.array_equal(found[:, 2:], np.isnan(array).astype(float))


def test_one_wrong_cell_moves_its_row_by_little():
    rng = np.random.default_rng(0)
    common = rng.normal(size=(300, 1))
    table = common + 0.5 * rng.normal(size=(300, 5))
    imputer = Imputer(steps=100, random_state=0).fit(table)
    row = table[:1].copy()
    row[0, 0] = np.nan
    wrong = row.copy()
    wrong[0, 1] = 1e4
    far = row.copy()
    far[0, 1] = np.nan
    assert abs(imputer.transform(wrong)[0, 0] - imputer.transform(far)[0, 0]) < 2.5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_jobs": 0}, "n_jobs must be a whole number of at least 1"),
        ({"verbose": -1}, "verbose must be a whole number of at least 0"),
        ({"members": 0}, "members must be a whole number of at least 1"),
        ({"patience": 0}, "patience must be a whole number of at least 1"),
        ({"add_indicator": "yes"}, "add_indicator must be true or false"),
    ],
)
def test_a_wrong_parameter_is_named(settings, message):
    with pytest.raises(ValueError, match=message):
        Imputer(**(TINY | settings)).fit(frame(20))


def test_verbose_reports(capsys):
    Imputer(**TINY, verbose=1).fit(frame(40))
    assert "imputer 3/3: loss" in capsys.readouterr().out


@pytest.mark.parametrize(("n_jobs", "threads"), [(None, 1), (2, 2), (-1, os.cpu_count())])
def test_a_fit_takes_its_threads_and_leaves_pytorch_its_own(n_jobs, threads, monkeypatch):
    import mac_policy.rows.imputer.estimator as estimator

    seen = threads_of_fit(monkeypatch, estimator, lambda: Imputer(**TINY, n_jobs=n_jobs).fit(frame(40)))
    assert seen == [threads]


def test_the_score_of_a_whole_number_is_the_log_of_its_probability():
    counts = pd.array(np.random.default_rng(0).poisson(1.0, 600), dtype="Int64")
    imputer = Imputer(steps=300, random_state=0).fit(pd.DataFrame({"count": counts}))
    values = pd.DataFrame({"count": pd.array(range(-5, 40), dtype="Int64")})
    chances = np.exp(imputer.score_samples(values))
    assert abs(chances.sum() - 1) < 1e-6
    shares = np.array([(counts == value).mean() for value in range(4)], float)
    np.testing.assert_allclose(chances[5:9], shares, atol=0.1)
