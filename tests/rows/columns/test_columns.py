"""Tables go to tensors and back: kinds, classes, types, scales and errors."""

import json
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch

from mac_policy.core.heads import Categorical, GaussianMixture, Mixed
from mac_policy.rows.columns import Columns

pd = pytest.importorskip("pandas")


def animals():
    return pd.DataFrame(
        {
            "size": [1.5, np.nan, 2.5, 9.0],
            "legs": [4, 2, 4, 4],
            "grade": pd.Categorical(["good", None, "bad", "good"], categories=["bad", "good", "best"], ordered=True),
            "name": ["cat", "hen", None, "cat"],
            "tame": [True, True, True, False],
            "eggs": pd.array([1, None, 3, 4], dtype="Int64"),
            "wild": pd.array([True, None, False, True], dtype="boolean"),
            "sort": pd.array(["q", None, "r", "q"], dtype="string"),
            "zoo": [7.0, 7.0, 7.0, np.nan],
            "single": np.array([0.5, 2.25, np.nan, 4.125], np.float32),
            "mixed": np.array([True, None, True, False], object),
        },
        index=[3, 1, 4, 5],
    )


def test_kinds_are_found_from_the_types_of_the_columns():
    kinds = {column.name: column.kind for column in Columns.of(animals()).all}
    assert [name for name, kind in kinds.items() if kind == "real"] == ["size", "single"]
    assert [name for name, kind in kinds.items() if kind == "integer"] == ["legs", "eggs", "zoo"]
    assert len(kinds) == 11


def test_a_complete_frame_keeps_types_index_and_observed_values_and_has_no_holes():
    table = animals()
    columns = Columns.of(table)
    values, missing = columns.encode(table)
    assert missing.sum() == 8  # the hole of a constant column is none of a variable
    whole = columns.complete(table, torch.full_like(values, 0.4))
    pd.testing.assert_series_equal(whole.dtypes, table.dtypes)
    assert whole.index.equals(table.index)
    assert list(whole.columns) == list(table.columns)
    assert not whole.isna().any().any()
    for name in table:
        seen = table[name].notna()
        assert (whole[name][seen] == table[name][seen]).all(), name
    assert whole["zoo"].tolist() == [7.0] * 4
    assert whole["eggs"].iloc[1] == round(0.4 * columns.all[5].scale + columns.all[5].location)


def test_decoding_is_the_inverse_of_encoding():
    table = animals().fillna({"name": "hen"}).iloc[[0, 2]].assign(single=np.float32(2.25))
    columns = Columns.of(animals())
    back = columns.decode(columns.encode(table)[0], index=table.index)
    pd.testing.assert_frame_equal(back, table)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32, object])
def test_an_array_comes_back_as_it_was(dtype):
    table = np.random.default_rng(0).integers(-9, 9, (20, 3)).astype(dtype)
    columns = Columns.of(table)
    back = columns.decode(columns.encode(table)[0])
    assert back.dtype == dtype
    assert np.array_equal(back, table)


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1.0, 1e4, 1e300])
@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_encoded_numbers_are_standardised_on_any_scale(scale, shift):
    table = (np.random.default_rng(0).normal(size=(500, 1)) + shift) * scale
    values, _ = Columns.of(table).encode(table)
    assert abs(float(values.mean())) < 1e-9
    assert abs(float(values.std(correction=0)) - 1) < 1e-9


def test_constant_and_empty_columns_are_no_variables():
    table = np.array([[1.0, 5.0, np.nan], [2.5, 5.0, np.nan], [np.nan, np.nan, np.nan]])
    columns = Columns.of(table)
    assert [column.name for column in columns.variables] == ["x0"]
    assert [column.empty for column in columns.all] == [False, False, True]
    assert columns.decode(torch.zeros(1, 1, dtype=torch.float64))[0, 1] == 5.0
    with pytest.raises(ValueError, match="'x1' has the same value"):
        columns.place("x1")


def test_a_dictionary_of_what_is_known_encodes_the_rest_as_missing():
    columns = Columns.of(animals())
    values, missing = columns.encode({"name": "hen", "size": 2.5}, partial=True)
    known = [columns.place("name"), columns.place("size")]
    assert (~missing).nonzero()[:, 1].tolist() == sorted(known)
    assert values[0, columns.place("name")] == 1
    assert values[missing].abs().sum() == 0


def test_a_description_in_json_gives_equal_columns():
    columns = Columns.of(animals())
    again = Columns.from_json(json.loads(json.dumps(columns.as_json())))
    assert again == columns
    assert torch.equal(again.encode(animals())[0], columns.encode(animals())[0])


def test_declared_kinds_count():
    table = {"a": [1, 2, 3, 2], "b": [0.0, 1.0, 1.0, np.nan], "c": ["u", "v", "u", "u"]}
    columns = Columns.of(table, kinds={"a": "real", "b": "categorical", "c": ["v", "u", "w"]})
    assert [column.kind for column in columns.all] == ["real", "categorical", "categorical"]
    assert columns.all[1].classes == (0, 1)
    assert columns.encode(table)[0][:, 2].tolist() == [1, 0, 1, 1]
    assert columns.decode(torch.tensor([[0.5, 1.0, 2.0]]))["b"].dtype == np.float64
    assert [column.kind for column in Columns.of(np.array([[1.0], [2.0]]), find_integers=False).all] == ["real"]


def test_heads_follow_the_kinds():
    head = Columns.of(animals()).head(num_components=3)
    assert isinstance(head, Mixed)
    assert [type(head.head_of(place)).__name__ for place in range(4)] == ["RoundedMixture"] * 2 + ["Categorical"] * 2
    assert head.head_of(2).num_classes == 3
    assert isinstance(Columns.of(np.eye(3)).head(), GaussianMixture)
    assert isinstance(Columns.of(np.array([["a"], ["b"]])).head(), Categorical)


def test_log_scales_change_the_unit_of_a_density():
    table = {"a": np.array([0.0, 2.5]), "b": ["u", "v"]}
    columns = Columns.of(table)
    assert columns.log_scales().tolist() == [np.log(1.25), 0.0]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"name": ["cat", "hne"]}, r"row 1, column 'name' has the class 'hne'.*'cat', 'hen'; did you mean 'hen'"),
        ({"nmae": ["cat"]}, "no column 'nmae'.*did you mean 'name'"),
        ({"size": ["big"]}, "row 0, column 'size' holds 'big': it is a column of numbers"),
        ({"size": [np.inf]}, "row 0, column 'size' is inf"),
        ({"size": [1.0], "legs": [1, 2]}, "'size' has 1 rows and 'legs' has 2"),
        ({"name": ["cat", 3]}, "'name' holds both 'cat' and 3"),
        ({"size": [1j]}, "of type complex128"),
        ({"size": [object()]}, "of type object"),
        ({"size": [2**60]}, "below 2\\*\\*53"),
        ({"size": [[1.0, 2.0]]}, "shape \\(1, 2\\)"),
        (np.zeros((2, 3)), "the table has 3 columns, expected are 11"),
        (np.zeros(3), "rows and columns"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(table, message):
    with pytest.raises(ValueError, match=message):
        Columns.of(animals()).encode(table, partial=True)


def test_a_table_of_fit_that_cannot_be_read_is_refused():
    with pytest.raises(ValueError, match="lacks the columns \\['b'\\]"):
        Columns.of({"a": [1.0, 2.0], "b": [1.0, 2.0]}).encode({"a": [1.0]})
    with pytest.raises(ValueError, match="100 classes in 100 rows"):
        Columns.of({"key": [f"id{i}" for i in range(100)]})
    with pytest.raises(ValueError, match="'a' is declared real, but row 1 holds 'x'"):
        Columns.of({"a": [None, "x"]}, kinds={"a": "real"})
    with pytest.raises(ValueError, match=r"unknown kind of the column 'a' 'ral'.*'real'"):
        Columns.of({"a": [1.0]}, kinds={"a": "ral"})
    with pytest.raises(ValueError, match="2 columns are named 'a'"):
        Columns.of(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(ValueError, match="type datetime64"):
        Columns.of(pd.DataFrame({"a": pd.to_datetime(["2020-01-01"])}))


def test_without_a_frame_pandas_is_not_imported():
    code = (
        "import sys, numpy as np; from mac_policy.rows.columns import Columns; "
        "c = Columns.of({'a': [1.5, None], 'b': ['u', 'v']}); c.decode(c.encode({'a': [2.5], 'b': ['u']})[0]); "
        "sys.exit(str([m for m in ('pandas', 'sklearn', 'hydra', 'rich') if m in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize(("mark", "shown"), [(-999, "-999"), (9999.5, "9999.5"), (1e300, "1e+300")])
def test_a_repeated_number_far_from_all_others_is_taken_for_a_marker(mark, shown):
    values = np.append(np.random.default_rng(0).normal(5, 2, 50), [mark, mark])
    with pytest.warns(UserWarning, match=re.escape(f"column 'a' holds {shown} in 2 rows")):
        Columns.of({"a": values})


@pytest.mark.parametrize(
    "values",
    [
        np.append(np.arange(50.0), -999),  # once: a wild cell
        np.append(np.arange(50.0), [149, 149]),  # a heavy tail
        np.array([0.0, 0, 1, 1]),
        np.array([0.0, 0, 0, 0, 7, 7]),
        np.full(5, np.nan),
    ],
)
def test_other_numbers_are_not(values):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Columns.of({"a": values})
