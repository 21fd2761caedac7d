"""What an Imputer returns keeps values and types; input that it cannot use is refused by name."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest

from mac_policy import Imputer, TableModel

QUICK = {"steps": 8, "members": 1, "width": 8, "depth": 1, "batch_size": 16, "random_state": 0}


def table(rows=40, dtype="int8"):
    rng = np.random.default_rng(0)
    size = rng.normal(3, 1, rows)
    return pd.DataFrame({"size": size, "count": pd.Series(np.rint(size * 2)).astype(dtype)})


@pytest.mark.parametrize(("dtype", "seen"), [("int8", 300), ("uint8", -3), ("float32", 0.123456789), ("Int8", 300)])
def test_observed_values_that_the_type_of_fit_cannot_hold_stay(dtype, seen):
    imputer = Imputer(**QUICK).fit(table(dtype=dtype))
    given = pd.DataFrame({"size": [np.nan, 2.0], "count": [seen, 4]})
    found = imputer.transform(given)
    assert found["count"].tolist() == [seen, 4]
    assert not found["size"].isna().any()


def test_types_that_hold_all_values_stay():
    imputer = Imputer(**QUICK).fit(table())
    found = imputer.transform(pd.DataFrame({"size": [1.0, 2.0], "count": [np.nan, 4]}))
    assert str(found["count"].dtype) == "int8"


@pytest.mark.parametrize("frame", [True, False])
def test_a_marker_leaves_whole_numbers_whole(frame):
    given = table(dtype="int64").assign(size=lambda t: t["count"] * 3)
    given.iloc[::5, 1] = -999
    imputer = Imputer(missing_values=-999, **QUICK)
    found = np.asarray(imputer.fit_transform(given if frame else given.to_numpy()), np.float64)
    np.testing.assert_array_equal(found, np.rint(found))
    assert (found != -999).all()
    if frame:
        assert str(imputer.transform(given)["count"].dtype) == "Int64"


def test_a_marker_leaves_the_columns_whole_that_are_not_declared():
    given = np.random.default_rng(0).integers(0, 6, (60, 3))
    given[::5, 1] = -1
    found = Imputer(missing_values=-1, kinds={2: "categorical"}, **QUICK).fit_transform(given)
    assert all(float(value).is_integer() for value in found[:, 1])


def test_a_pickle_of_an_earlier_version_is_refused():
    imputer = Imputer(**QUICK).fit(table())
    again = pickle.loads(pickle.dumps(imputer))
    pd.testing.assert_frame_equal(again.transform(table()), imputer.transform(table()))
    del imputer._format
    with pytest.raises(ValueError, match=r"stored by an earlier version.*fit it again"):
        pickle.loads(pickle.dumps(imputer))


def test_objects_that_are_all_whole_numbers_stay_whole():
    rows = [[1, 10, 0.5], [2, None, 1.0], [None, 30, 1.5], [4, 40, None]] * 10
    found = Imputer(**QUICK).fit_transform(np.array(rows, dtype=object))
    assert {type(value) for value in found[:, :2].flat} == {int}
    assert [type(value) for value in found[3:4, 2]] == [float]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            ["1", "2", "", "3"],
            r"column 'kind' holds numbers written as texts, such as '1'.*kinds=.'kind': 'cat",
        ),
        (["x", "y", " n/a ", "x"], r"column 'kind' has the class ' n/a ' in 10 rows.*missing_values=' n/a '"),
    ],
)
def test_texts_that_are_holes_or_numbers_are_warned_of(values, message):
    given = table().assign(kind=values * 10)
    with pytest.warns(UserWarning, match=message):
        Imputer(**QUICK).fit(given)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Imputer(kinds={"kind": "categorical"}, **QUICK).fit(given)
        Imputer(**QUICK).fit(given.assign(kind=given["kind"].astype("category")))
        Imputer(**QUICK).fit(table().assign(kind=["x", "y", "z", "x"] * 10))


def test_a_marker_is_no_class():
    given = table().assign(kind=pd.Categorical(["x", "y", "?", "x"] * 10))
    imputer = Imputer(missing_values="?", **QUICK).fit(given)
    assert imputer.columns_.column("kind").classes == ("x", "y")
    assert imputer.class_probabilities(given)["kind"].shape == (40, 2)
    assert set(imputer.transform(given)["kind"]) == {"x", "y"}


@pytest.mark.parametrize("marker", [[-1, -2], {"a": 1}, np.array([1.0])])
def test_a_marker_that_no_cell_can_be_is_refused(marker):
    with pytest.raises(ValueError, match="missing_values must be a number, a text, NaN or None"):
        Imputer(missing_values=marker).fit(table())


def test_a_category_without_values_stays_missing():
    given = table().assign(kind=pd.Categorical([None] * 40, categories=["x", "y"]))
    imputer = Imputer(keep_empty_features=True, **QUICK).fit(given)
    assert imputer.transform(given)["kind"].isna().all()
    assert imputer.sample(given.head(2), 3).shape == (3, 2, 3)
    model = TableModel(**QUICK).fit(given)
    assert "kind" not in model.conditionals()
    assert model.sample(n_samples=2)["kind"].isna().all()


def test_indicators_need_no_second_look_at_classes_and_refuse_a_name_that_is_taken():
    words = pd.Categorical([f"w{i % 60}" for i in range(200)])
    given = pd.DataFrame({"size": np.random.default_rng(0).normal(size=200), "word": words})
    given.loc[::3, "size"] = np.nan
    imputer = Imputer(add_indicator=True, **QUICK).fit(given)
    few = given.head(70).assign(word=given["word"].head(70).astype(object))
    assert list(imputer.transform(few)) == ["size", "word", "missingindicator_size"]
    taken = given.rename(columns={"word": "missingindicator_size"})
    with pytest.raises(ValueError, match=r"adds the columns \['missingindicator_size'\].*rename them"):
        Imputer(add_indicator=True, **QUICK).fit(taken).transform(taken)


def test_columns_of_one_name_are_told_apart_by_their_places():
    given = table().set_axis(["a", "a"], axis=1).astype(float)
    given.iloc[0, 0] = np.nan
    found = Imputer(**QUICK).fit(given).transform(given)
    assert list(found) == ["a", "a"]
    assert not found.isna().any(axis=None)


def test_numbers_of_several_types_are_an_array_of_numbers():
    imputer = Imputer(**QUICK).fit(table())
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        assert imputer.transform(table().to_numpy()).dtype == np.float64


def test_bounds_of_whole_numbers_are_the_whole_numbers_within():
    given = table(dtype="Int64")
    given.iloc[::4, 1] = pd.NA
    imputer = Imputer(min_value=[-9.0, 2.5], max_value=[99.0, 3.5], **QUICK).fit(given)
    assert set(imputer.transform(given).loc[given["count"].isna(), "count"]) == {3}
    with pytest.raises(ValueError, match="above max_value"):
        Imputer(min_value=0.4, max_value=0.6, **QUICK).fit(given)


def test_a_loaded_model_is_fitted_again_with_the_same_kinds(tmp_path):
    kinds = {"count": "categorical"}
    model = TableModel(kinds=kinds, **QUICK).fit(table())
    again = TableModel.load(model.save(tmp_path / "model"))
    assert again.kinds == kinds
    assert again.fit(table()).columns.column("count").kind == "categorical"
    rows = np.random.default_rng(0).normal(size=(40, 2))
    named = TableModel.load(TableModel(names=["a", "b"], **QUICK).fit(rows).save(tmp_path / "named"))
    assert list(named.names) == ["a", "b"]
    assert named.kinds is None


def test_nothing_known_is_one_row_of_nothing():
    model = TableModel(**QUICK).fit(table())
    assert model.sample({}, n_samples=5).shape == model.sample(n_samples=5).shape == (5, 2)
    assert list(model.conditionals({})) == list(model.conditionals())
