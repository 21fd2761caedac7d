"""A user's own table: what is read, what is left out, what is refused."""

import numpy as np
import pytest

from mac_policy.rows.sets.registry import load_rows


def write(path, header="a,b,c", rows=40, cells=None, separator=","):
    values = np.random.default_rng(0).normal([5, 0, 1e6], [1, 2, 1e4], (rows, 3))
    lines = [separator.join(f"{value:.6g}" for value in row) for row in values]
    for row, text in (cells or {}).items():
        lines[row] = text
    path.write_text("\n".join(filter(None, [header, *lines])) + "\n")
    return values


@pytest.mark.parametrize("header", ["a,b,c", ""])
def test_all_rows_are_split_and_standardised_by_the_training_rows(tmp_path, header):
    values = write(tmp_path / "my.csv", header)
    rows = load_rows("table", path=tmp_path / "my.csv", split=3)
    assert [len(part) for part in (rows.train, rows.valid, rows.test)] == [32, 4, 4]
    assert (rows.shape, rows.levels, rows.note) == ((3,), None, "split 3")
    np.testing.assert_allclose(rows.train.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(rows.train.std(0), 1, atol=1e-5)
    everything = np.concatenate([rows.train, rows.valid, rows.test])
    raw = np.sort(values[:, 1])
    slope = np.diff(np.sort(everything[:, 1])) / np.diff(raw)
    np.testing.assert_allclose(slope, slope[0], rtol=1e-2)


def test_splits_differ_and_repeat(tmp_path):
    write(tmp_path / "my.csv")
    first, again, other = (load_rows("table", path=tmp_path / "my.csv", split=split) for split in (0, 0, 1))
    assert np.array_equal(first.test, again.test)
    assert not np.array_equal(first.test, other.test)


def test_an_npy_file_is_the_same_table(tmp_path):
    values = write(tmp_path / "my.csv")
    np.save(tmp_path / "my.npy", values)
    assert load_rows("table", path=tmp_path / "my.npy").train.shape == (32, 3)


def test_an_array_of_texts_is_refused(tmp_path):
    np.save(tmp_path / "my.npy", write(tmp_path / "my.csv").astype(str))
    with pytest.raises(ValueError, match=r"the columns \['x0', 'x1', 'x2'\] do not hold numbers.*TableModel"):
        load_rows("table", path=tmp_path / "my.npy")


def test_rows_with_missing_values_and_constant_columns_are_left_out_and_counted(tmp_path):
    write(tmp_path / "my.csv", cells={0: "1,,3", 7: "NA,1,2"})
    rows = load_rows("table", path=tmp_path / "my.csv")
    assert len(rows.train) + len(rows.valid) + len(rows.test) == 38
    assert "2 rows with missing values left out" in rows.note
    lines = (tmp_path / "my.csv").read_text().splitlines()
    (tmp_path / "more.csv").write_text("\n".join(f"{line},{7 if number else 'd'}" for number, line in enumerate(lines)))
    more = load_rows("table", path=tmp_path / "more.csv")
    assert more.shape == (3,)
    assert "constant columns dropped: 3" in more.note


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ({"cells": {3: "1,two,3"}}, "my.csv line 5, column 'b' holds 'two'.*TableModel"),
        ({"header": "a;b;c", "separator": ";"}, "separated by ';': separate them by commas"),
        ({"cells": {3: "1,2"}}, "line 5 has 2 cells, the first line 3"),
        ({"rows": 9}, "9 rows without missing values: at least 20"),
        ({"header": "a,a,c"}, "a name of its own"),
    ],
)
def test_a_file_that_is_no_table_of_numbers_is_refused(tmp_path, file, message):
    write(tmp_path / "my.csv", **file)
    with pytest.raises(ValueError, match=message):
        load_rows("table", path=tmp_path / "my.csv")


def test_a_path_is_needed():
    with pytest.raises(ValueError, match=r"data.path=... is missing"):
        load_rows("table")
    with pytest.raises(ValueError, match="there is no such file"):
        load_rows("table", path="nowhere.csv")
    with pytest.raises(ValueError, match="energy takes no option 'path'"):
        load_rows("energy", path="my.csv")
