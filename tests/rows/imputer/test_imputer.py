"""The Imputer: what it fills in, what it refuses, and what scikit-learn expects of it."""

import pickle
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.utils.estimator_checks import parametrize_with_checks

from mac_policy import Imputer
from mac_policy.core.heads.continuous import MixtureConditional
from mac_policy.rows.columns.columns import Columns
from mac_policy.rows.imputer.answers import median
from mac_policy.rows.imputer.table import read_table

TINY = {"steps": 3, "width": 8, "depth": 1, "num_components": 2, "batch_size": 16, "random_state": 0}


@parametrize_with_checks([Imputer(**TINY)])
def test_scikit_learn_takes_it_for_an_estimator(estimator, check):
    check(estimator)


# ---- what it fills in ----

MEAN, SCALE, RHO = np.array([3.0, -10.0, 100.0]), np.array([1.0, 5.0, 20.0]), 0.9


def correlated(rows, seed=0):
    """Rows of a Gaussian of known law, all columns correlated by RHO."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(rows, 1))
    return MEAN + SCALE * (np.sqrt(RHO) * common + np.sqrt(1 - RHO) * rng.normal(size=(rows, 3)))


def holed(table, share=0.3, seed=1):
    return np.where(np.random.default_rng(seed).random(table.shape) < share, np.nan, table)


def conditional_mean(table):
    """E[x_missing | x_seen] of `correlated`, row by row."""
    out, covariance = table.copy(), RHO + (1 - RHO) * np.eye(3)
    for row in out:
        gone = np.isnan(row)
        seen = ~gone
        scaled = (row[seen] - MEAN[seen]) / SCALE[seen]
        gain = np.linalg.lstsq(covariance[seen][:, seen], covariance[seen][:, gone], rcond=None)[0]
        row[gone] = MEAN[gone] + SCALE[gone] * (scaled @ gain)
    return out


@pytest.fixture(scope="module")
def fitted():
    return Imputer(steps=600, width=32, depth=1, num_components=2, random_state=0).fit(holed(correlated(1500)))


def test_holes_get_the_conditional_mean_and_what_is_seen_stays(fitted):
    table = holed(correlated(400, seed=5), 0.4)
    found, seen = fitted.transform(table), ~np.isnan(table)
    assert np.array_equal(found[seen], table[seen])
    off = (found - conditional_mean(table)) / SCALE
    assert (
        np.sqrt(np.mean(off[~seen] ** 2)) < 0.12
    )  # what is left after a short training; the mean of a column is 0.8 off


def test_a_row_of_holes_gets_the_means_of_the_columns(fitted):
    found = fitted.transform(np.full((1, 3), np.nan))
    assert np.abs((found - MEAN) / SCALE).max() < 0.15
    assert fitted.score_samples(np.full((1, 3), np.nan)).tolist() == [0.0]


def test_scores_are_the_log_density_of_what_is_seen_in_the_tables_units(fitted):
    table = holed(correlated(300, seed=6), 0.3)
    covariance = np.diag(SCALE) @ (RHO + (1 - RHO) * np.eye(3)) @ np.diag(SCALE)
    exact = []
    for row in table:
        seen = ~np.isnan(row)
        part, off = covariance[seen][:, seen], (row - MEAN)[seen]
        quadratic = off @ np.linalg.solve(part, off) if seen.any() else 0.0
        exact.append(-0.5 * (quadratic + seen.sum() * np.log(2 * np.pi) + np.linalg.slogdet(part)[1]))
    assert np.mean(fitted.score_samples(table)) == pytest.approx(np.mean(exact), abs=0.15)
    assert fitted.score(table) == pytest.approx(np.mean(fitted.score_samples(table)))


def test_draws_have_the_spread_that_the_conditional_has(fitted):
    row = np.array([[4.0, np.nan, np.nan]])
    draws = fitted.sample(row, n_samples=2000)
    assert draws.shape == (2000, 1, 3)
    assert (draws[:, :, 0] == 4.0).all()
    one, two = ((draws[:, 0, k] - MEAN[k]) / SCALE[k] for k in (1, 2))
    assert one.mean() == pytest.approx(RHO, abs=0.12)
    assert one.std() == pytest.approx(np.sqrt(1 - RHO**2), abs=0.08)
    left = RHO - RHO**2  # the covariance of the two that is not the first's
    assert np.corrcoef(one, two)[0, 1] == pytest.approx(left / (1 - RHO**2), abs=0.15)


def test_the_ways_to_fill(fitted):
    table = holed(correlated(50, seed=7))
    found = {fill: Imputer(**fitted.get_params()) for fill in ("mean", "median", "mode", "sample")}
    for fill, imputer in found.items():
        imputer.__dict__.update(fitted.__dict__ | {"fill": fill})
        found[fill] = imputer.transform(table)
        assert np.isfinite(found[fill]).all()
    assert np.abs((found["mean"] - found["median"]) / SCALE).max() < 0.1  # of what is nearly Gaussian
    assert np.abs((found["mean"] - found["sample"]) / SCALE).max() > 0.2
    with pytest.raises(ValueError, match=r"unknown fill 'meen'; .* did you mean 'mean'"):
        fitted.__class__(fill="meen").fit(table)


def test_the_median_halves_a_mixture():
    generator = torch.Generator().manual_seed(0)
    parts = [torch.randn(40, 4, generator=generator, dtype=torch.double) for _ in range(3)]
    mixture = MixtureConditional(*parts)
    draws = torch.stack([mixture.sample(generator=generator) for _ in range(4000)])
    below = (draws < median(mixture)).double().mean(0)
    assert (below - 0.5).abs().max() < 5 * 0.5 / 4000**0.5


@pytest.mark.parametrize("factorization", ["uniform", "mac"])
def test_a_seed_makes_everything_repeatable_and_it_survives_pickling(factorization):
    table = holed(correlated(80))
    one, two = (Imputer(**TINY, factorization=factorization).fit(table) for _ in range(2))
    copy = pickle.loads(pickle.dumps(one))
    for other in (two, copy):
        assert np.array_equal(one.transform(table), other.transform(table))
        assert np.array_equal(one.sample(table, 2), other.sample(table, 2))
        assert np.array_equal(one.score_samples(table), other.score_samples(table))
    assert not np.array_equal(one.sample(table), one.sample(table, random_state=1))
    third = Imputer(**(TINY | {"random_state": 1}), factorization=factorization).fit(table)
    assert not np.array_equal(one.transform(table), third.transform(table))


def test_fitting_leaves_the_global_random_state_and_the_table_alone(capfd):
    table = holed(correlated(60))
    before, state = table.copy(), torch.random.get_rng_state()
    Imputer(**TINY).fit(table).transform(table)
    assert torch.equal(state, torch.random.get_rng_state())
    assert np.array_equal(before, table, equal_nan=True)
    assert capfd.readouterr() == ("", "")


def test_fits_in_threads_give_what_fits_one_after_another_give():
    table, settings = holed(correlated(60)), TINY | {"steps": 25, "dropout": 0.3}

    def answers(seed):
        return Imputer(**(settings | {"random_state": seed})).fit(table).transform(table)

    alone = [answers(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(answers, range(4)))
    assert all(np.array_equal(*pair) for pair in zip(alone, together, strict=True))


@pytest.mark.parametrize("broken", [KeyboardInterrupt, None])
def test_a_fit_that_is_broken_off_leaves_what_was_there_before(monkeypatch, broken):
    fresh, table = Imputer(**TINY), holed(correlated(40))
    old = Imputer(**TINY).fit(table)
    before = old.transform(table)
    if broken:

        def interrupted(*_):
            raise broken

        monkeypatch.setattr("mac_policy.rows.imputer.training.TableLoop.inputs", interrupted)
    else:
        for imputer in (fresh, old):
            imputer.set_params(learning_rate=1e30, steps=50)
    for imputer in (fresh, old):
        with pytest.raises(broken or RuntimeError, match=None if broken else "a learning_rate below 1e[+]30 may help"):
            imputer.fit(holed(correlated(30))[:, :2])
    with pytest.raises(ValueError, match="is not fitted yet"):
        fresh.score_samples(table)
    assert np.array_equal(old.transform(table), before)


# ---- tables as people have them ----


def test_frames_of_any_column_names_come_back_without_their_empty_columns():
    table = np.column_stack([holed(correlated(40)), np.full(40, np.nan)])
    pairs = pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1), ("b", 2)])
    for frame in (pd.DataFrame(table), pd.DataFrame(table, columns=pairs)):
        with pytest.warns(UserWarning, match="will be dropped"):
            found = Imputer(**TINY).fit(frame).transform(frame)
        assert found.columns.equals(frame.columns[:3])
        assert found.notna().all(axis=None)


def test_masked_values_are_missing_ones():
    table = holed(correlated(40))
    imputer = Imputer(**TINY).fit(table)
    masked = np.ma.masked_array(np.where(np.isnan(table), -999.0, table), np.isnan(table))
    assert np.array_equal(Imputer(**TINY).fit(masked).transform(masked), imputer.transform(table))
    whole = np.ma.masked_array([[1, 2**60], [3, 4]], [[False, True], [False, False]])
    assert read_table(whole, "").data.tolist() == [[1, None], [3, 4]]


@pytest.mark.parametrize("scale", [1e-9, 1.7e308])
def test_every_hole_is_filled_by_a_number_however_far_off_what_is_seen(scale):
    table = np.random.default_rng(0).choice([-1.0, 1.0], (40, 3)) * scale
    imputer, far = Imputer(**TINY).fit(table), np.array([[1e300, np.nan, 1.0], [np.nan, -1.7e308, np.nan]])
    for found in (imputer.transform(far), imputer.sample(far, 20), imputer.score_samples(far)):
        assert np.isfinite(found).all()
    assert imputer.transform(far)[0, 0] == 1e300


def test_single_precision_stays_and_all_else_is_double():
    table = holed(correlated(40))
    single = table.astype(np.float32)
    for form in (np.asarray, pd.DataFrame):
        found = Imputer(**TINY).fit(form(single)).transform(form(single))
        assert (np.asarray(found).dtype, np.asarray(found)[0, 0].dtype) == (np.float32, np.float32)
        seen = ~np.isnan(single)
        assert np.array_equal(np.asarray(found)[seen], single[seen])
    assert Imputer(**TINY).fit(single).sample(single).dtype == np.float64
    assert Imputer(**TINY).fit(table).transform([[1, 2, None]]).dtype == np.float64


def test_a_data_frame_comes_back_as_one():
    frame = pd.DataFrame(holed(correlated(60)), columns=["a", "b", "c"], index=range(100, 160))
    frame["whole"] = pd.array([1, None] * 30, dtype="Int64")
    frame["flag"] = pd.array([True, False, None] * 20, dtype="boolean")
    frame["mixed"] = pd.Series([1, 2.5, None] * 20, dtype=object, index=frame.index)
    imputer = Imputer(**TINY).fit(frame)
    found = imputer.transform(frame)
    assert isinstance(found, pd.DataFrame)
    assert list(found.columns) == list(frame.columns)
    assert found.index.equals(frame.index)
    assert found.notna().all(axis=None)
    assert list(imputer.feature_names_in_) == list(frame.columns)
    known = frame["whole"].notna()
    assert (found["whole"][known] == 1).all()


def test_columns_that_fit_did_not_see_are_named():
    frame = pd.DataFrame(correlated(40), columns=["a", "b", "c"])
    imputer = Imputer(**TINY).fit(frame)
    with pytest.raises(ValueError, match=r"unseen at fit time:\n- d\n.*yet now missing:\n- b\n"):
        imputer.transform(frame.rename(columns={"b": "d"}))
    with pytest.raises(ValueError, match="more than once: 'a'"):
        imputer.transform(frame[["a", "b", "c", "a"]])
    with pytest.raises(ValueError, match="same order as they were in fit"):
        imputer.transform(frame[["c", "b", "a"]])
    with pytest.raises(ValueError, match="X has 2 features, but Imputer is expecting 3 features"):
        Imputer(**TINY).fit(frame.to_numpy()).transform(frame.to_numpy()[:, :2])
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        imputer.transform(frame.to_numpy())


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([[1.0, np.inf], [2.0, 3.0]], r"row 0, column 1 is inf: values must be finite"),
        (pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, -np.inf]}), r"row 1, column 'b' is -inf: values must be finite"),
        (pd.DataFrame({"a": ["red", 1.5]}), r"column 'a' holds both 'red' and 1.5"),
        (
            pd.DataFrame({"a": [f"row {i}" for i in range(60)]}),
            r"column 'a' has 60 classes in 60 rows, as an identifier",
        ),
        (pd.DataFrame({"t": pd.to_datetime(["2020-01-01", None])}), r"column 't' holds values of type datetime64"),
        (np.array([[1 + 1j, 2]]), "Complex data not supported"),
        (np.zeros(3), "Expected 2D array, got 1D"),
        ([[1, 2**53], [3, 4]], r"column 1 holds 9007199254740992: whole numbers must be below 2\*\*53"),
        ([[2**80, 1]], r"column 0 holds 1208925819614629174706176: whole numbers must be"),
        (
            pd.DataFrame({"a": pd.array([None, -(2**60)], dtype="Int64")}),
            r"column 'a' holds -1152921504606846976",
        ),
        (np.zeros((0, 3)), r"Found array with 0 sample\(s\)"),
    ],
)
def test_what_is_no_table_of_numbers_is_named(table, message):
    with pytest.raises(ValueError, match=message):
        Imputer(**TINY).fit(table)


def test_columns_without_a_value_are_dropped_or_kept_as_zeros():
    table = holed(correlated(40))
    table[:, 1] = np.nan
    with pytest.warns(UserWarning, match=r"without any value in fit: 1\. They will be dropped"):
        imputer = Imputer(**TINY).fit(table)
    assert imputer.transform(table).shape == (40, 2)
    assert imputer.sample(table, 3).shape == (3, 40, 2)
    assert list(imputer.get_feature_names_out()) == ["x0", "x2"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = Imputer(**TINY, keep_empty_features=True).fit(table).transform(table)
    assert kept.shape == (40, 3)
    assert (kept[:, 1] == 0).all()
    frame = pd.DataFrame(table, columns=["a", "b", "c"])
    with pytest.warns(UserWarning, match="without any value in fit: 'b'"):
        assert list(Imputer(**TINY).fit(frame).transform(frame).columns) == ["a", "c"]


def test_constant_columns_are_filled_with_their_constant():
    table = holed(np.column_stack([correlated(40), np.full(40, 7.0)]))
    imputer = Imputer(**TINY).fit(table)
    assert imputer.constant_features_.tolist() == [False, False, False, True]
    assert (imputer.transform(table)[:, 3] == 7).all()
    other = table[:1].copy()
    other[0, 3] = 8.0  # seen, so it stays; and it changes nothing else
    assert np.array_equal(imputer.transform(other)[0, :3], imputer.transform(table[:1])[0, :3])
    assert imputer.transform(other)[0, 3] == 8
    assert np.array_equal(imputer.score_samples(other), imputer.score_samples(table[:1]))


def test_a_table_of_constants_has_no_model():
    imputer = Imputer(**TINY).fit([[1.0, 2.0], [1.0, np.nan], [np.nan, np.nan]])
    assert imputer.model_ is None
    assert imputer.transform([[np.nan, np.nan], [5.0, np.nan]]).tolist() == [[1, 2], [5, 2]]
    assert imputer.sample([[np.nan, np.nan]], 2).tolist() == [[[1, 2]], [[1, 2]]]
    assert imputer.score_samples([[1.0, 2.0]]).tolist() == [0.0]


def test_all_rows_empty_and_columns_of_any_size():
    with pytest.warns(UserWarning, match="without any value in fit: 0, 1"):
        assert Imputer(**TINY).fit(np.full((3, 2), np.nan)).transform(np.full((3, 2), np.nan)).shape == (3, 0)
    rng = np.random.default_rng(0)
    table = holed(rng.normal(size=(50, 3)) * [1e-150, 1e150, 1.0] + [0, 0, 1.6e9])
    found = Imputer(**TINY).fit(table).transform(table)
    assert np.isfinite(found).all()
    scales = [column.scale for column in Columns.of(table).all]
    assert scales == pytest.approx(np.nanstd(table / [1e-150, 1e150, 1], 0) * [1e-150, 1e150, 1])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"factorization": "macc"}, "unknown factorization 'macc'; .* did you mean 'mac'"),
        ({"steps": 0}, "steps must be a whole number of at least 1, got 0"),
        ({"random_state": "1"}, "random_state must be None, a whole number"),
        ({"validation": 1.5}, "validation must be in"),
        ({"width": 0}, "width must be a whole number of at least 1, got 0"),
        ({"noise": np.nan}, "noise must be at least 0 and finite, got nan"),
        ({"noise": -1}, "noise must be at least 0 and finite, got -1"),
        ({"dropout": "a"}, r"dropout must be in \[0, 0.99\], got 'a'"),
        ({"learning_rate": 0}, "learning_rate must be a finite number above 0, got 0"),
        ({"keep_empty_features": "no"}, "keep_empty_features must be true or false, got 'no'"),
        ({"random_state": 2**70}, r"random_state must be None, a whole number from 0 to 2\*\*32 - 1"),
        ({"device": "cdua"}, "unknown device 'cdua'; .* did you mean 'cuda'"),
        ({"device": "tpu"}, "device 'tpu' is not available for training"),
    ],
)
def test_a_wrong_setting_is_named(settings, message):
    with pytest.raises(ValueError, match=message):
        Imputer(**(TINY | settings)).fit(correlated(20))


def test_a_wrong_number_of_samples_is_named():
    with pytest.raises(ValueError, match="n_samples must be a whole number"):
        Imputer(**TINY).fit(correlated(20)).sample(correlated(2), 0)


def test_it_works_without_scikit_learn():
    """The same table, in a Python that cannot import scikit-learn."""
    code = (
        "import sys; sys.modules['sklearn'] = sys.modules['sklearn.base'] = None\n"
        "import numpy as np\n"
        "from mac_policy import Imputer\n"
        "imputer = Imputer(steps=3, width=8, depth=1, random_state=0)\n"
        "table = np.random.default_rng(0).normal(size=(30, 3)); table[0, 0] = np.nan\n"
        "print(np.isfinite(imputer.fit_transform(table)).all(), imputer.set_params(width=9).get_params()['width'])\n"
        "try: Imputer().transform(table)\n"
        "except ValueError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("True 9\nThis Imputer instance is not fitted yet"), done.stderr
