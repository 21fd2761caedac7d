"""Tables: ACE's preparation of the five, and the three small ones."""

import pickle
import sys
import types

import h5py
import numpy as np
import pytest

from mac_policy.rows.sets.folders import FOLDERS
from mac_policy.rows.sets.formats import frame_columns
from mac_policy.rows.sets.registry import SETS, load_rows
from mac_policy.rows.sets.scaling import Scaling, drop_constant, is_constant
from mac_policy.rows.sets.tables import TABLES, drop_correlated, load_table, tail_splits
from mac_policy.rows.sets.uci import load_uci


def rng(seed=0):
    return np.random.default_rng(seed)


def write_npy(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, values)


def test_the_last_tenth_is_for_test_and_the_tenth_before_for_validation():
    splits = tail_splits(np.arange(100.0)[:, None])
    assert [len(rows) for rows in splits] == [81, 9, 10]
    assert [rows[0, 0] for rows in splits] == [0.0, 81.0, 90.0]


def test_the_published_counts_follow_from_the_published_rows():
    for name, total in (("power", 2_049_280), ("gas", 1_052_065), ("miniboone", 36_488)):
        test = int(0.1 * total)
        valid = int(0.1 * (total - test))
        assert TABLES[name].rows == (total - test - valid, valid, test)


def test_power_is_shuffled_made_continuous_and_normalised_by_train_and_validation(tmp_path):
    raw = rng().normal(size=(500, 8))
    write_npy(tmp_path / "power" / "data.npy", raw)
    rows = load_table("power", tmp_path, verify=False)
    assert (len(rows.train), len(rows.valid), len(rows.test), rows.num_variables) == (405, 45, 50, 6)
    both = np.concatenate([rows.train, rows.valid])
    np.testing.assert_allclose(both.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(both.std(0), 1, atol=1e-5)
    # the recipe as published, step by step
    state = np.random.RandomState(42)
    data = raw.copy()
    state.shuffle(data)
    data = np.delete(np.delete(data, 3, axis=1), 1, axis=1)
    voltage, gap, meters = 0.01 * state.rand(500, 1), 0.001 * state.rand(500, 1), state.rand(500, 3)
    data = data + np.hstack((gap, voltage, meters, np.zeros((500, 1))))
    expected = (data - data[:450].mean(0)) / data[:450].std(0)
    np.testing.assert_allclose(rows.test, expected[450:], rtol=1e-5, atol=1e-6)


def test_miniboone_keeps_its_order(tmp_path):
    raw = rng().normal(3, 2, size=(200, 43))
    write_npy(tmp_path / "miniboone" / "data.npy", raw)
    rows = load_table("miniboone", tmp_path, verify=False)
    expected = (raw - raw[:180].mean(0)) / raw[:180].std(0)
    np.testing.assert_allclose(rows.train, expected[:162], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(rows.test, expected[180:], rtol=1e-4, atol=1e-5)


def csv(path, values, end=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [",".join(f"{v:.9g}" for v in row) + end for row in values]
    path.write_text("\n".join(["names" + end, *lines]) + "\n")


@pytest.mark.parametrize("end", ["", ","])
def test_hepmass_keeps_the_signal_and_drops_columns_that_repeat_their_smallest_value(tmp_path, end):
    train = rng().normal(size=(60, 5))
    train[:, 0] = np.arange(60) % 2
    train[:20, 2] = -9.0  # the smallest value, ten times among the signal
    test = np.column_stack([rng(1).normal(size=(30, 5)), np.ones(30)])
    test[:, 0] = 1
    csv(tmp_path / "hepmass" / "1000_train.csv", train, end)
    csv(tmp_path / "hepmass" / "1000_test.csv", test, end)
    rows = load_table("hepmass", tmp_path, verify=False)
    signal = train[train[:, 0] == 1, 1:]
    expected = ((signal - signal.mean(0)) / signal.std(0, ddof=1))[:, [0, 2, 3]]
    np.testing.assert_allclose(np.concatenate([rows.train, rows.valid]), expected, rtol=1e-5, atol=1e-6)
    assert (len(rows.train), len(rows.valid), len(rows.test)) == (27, 3, 30)


def test_bsds_comes_as_it_is(tmp_path):
    path = tmp_path / "BSDS300" / "BSDS300.hdf5"
    path.parent.mkdir()
    with h5py.File(path, "w") as file:
        for split, count in (("train", 20), ("validation", 4), ("test", 5)):
            file[split] = rng(count).normal(size=(count, 63))
    rows = load_table("bsds", tmp_path, verify=False)
    np.testing.assert_allclose(rows.test, rng(5).normal(size=(5, 63)), rtol=1e-6)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ValueError, match=r"BSDS300.hdf5 is truncated"):
        load_table("bsds", tmp_path)


@pytest.fixture
def pandas_like(monkeypatch):
    """Modules of pandas' names, whose objects pickle as pandas 0.14.1 to 1.2 pickled a table."""
    modules = {}
    for name in ("pandas", "pandas.core", "pandas.core.frame", "pandas.core.internals", "pandas.core.indexes"):
        modules[name] = types.ModuleType(name)
        monkeypatch.setitem(sys.modules, name, modules[name])

    def stateful(name, module):
        cls = type(name, (), {"__module__": module, "__getstate__": lambda self: self.state})
        setattr(modules[module], name, cls)
        return cls

    frame = stateful("DataFrame", "pandas.core.frame")
    manager = stateful("BlockManager", "pandas.core.internals")
    index = stateful("Index", "pandas.core.indexes")

    def _new_Index(cls, d):
        return cls()

    _new_Index.__module__ = "pandas.core.indexes"
    _new_Index.__qualname__ = "_new_Index"
    modules["pandas.core.indexes"]._new_Index = _new_Index
    index.__reduce__ = lambda self: (_new_Index, (index, self.state), None)

    def make(columns):
        axis = index()
        axis.state = {"data": np.array(list(columns), object), "name": None}
        values = np.array(list(columns.values()))
        blocks = [
            {"values": values[:2], "mgr_locs": slice(0, 2, 1)},
            {"values": values[2:], "mgr_locs": np.arange(2, len(values))},
        ]
        inner, outer = manager(), frame()
        inner.state = ([axis], [], [], {"0.14.1": {"axes": [axis], "blocks": blocks}})
        outer.state = {"_data": inner, "_typ": "dataframe"}
        return outer

    return make


def test_gas_reads_the_pickled_table_without_pandas(tmp_path, pandas_like):
    columns = {name: rng(i).normal(size=100) for i, name in enumerate(["Time", "Meth", "Eth", "a", "b", "c"])}
    columns["copy"] = columns["a"] * 2 + 1e-3 * columns["b"]
    path = tmp_path / "gas" / "ethylene_CO.pickle"
    path.parent.mkdir()
    path.write_bytes(pickle.dumps(pandas_like(columns), protocol=2))
    found = frame_columns(path)
    assert list(found) == list(columns)
    np.testing.assert_array_equal(found["b"], columns["b"])
    rows = load_table("gas", tmp_path, verify=False)
    kept = np.column_stack([columns[name] for name in ("b", "c", "copy")])  # of a pair that correlates, the first goes
    expected = (kept - kept.mean(0)) / kept.std(0, ddof=1)
    np.testing.assert_allclose(rows.train, expected[:81], rtol=1e-4, atol=1e-5)
    path.write_bytes(pickle.dumps({"no": "table"}))
    with pytest.raises(ValueError, match=r"no table pickled by pandas 0.14.1 to 1.2"):
        load_table("gas", tmp_path)


def test_correlated_columns_are_dropped_one_by_one_and_constant_ones_do_not_disturb():
    base = rng().normal(size=(200, 1))
    data = np.hstack([base, base + 1e-4, np.ones((200, 1)), rng(1).normal(size=(200, 1)), base - 1e-4])
    np.testing.assert_array_equal(drop_correlated(data, 0.98), data[:, 2:])


def test_other_counts_than_published_are_refused(tmp_path):
    write_npy(tmp_path / "miniboone" / "data.npy", rng().normal(size=(200, 43)))
    with pytest.raises(
        ValueError, match=r"43 columns and \(162, 18, 20\) rows .* expected 43 and \(29556, 3284, 3648\)"
    ):
        load_table("miniboone", tmp_path)
    (tmp_path / "miniboone" / "data.npy").write_bytes(b"\x93NUMPY half")
    with pytest.raises(ValueError, match="is truncated or no npy file"):
        load_table("miniboone", tmp_path)
    write_npy(tmp_path / "power" / "data.npy", rng().normal(size=(20, 7)))
    with pytest.raises(ValueError, match=r"shape \(20, 7\), expected rows of 8 columns"):
        load_table("power", tmp_path)


def test_values_that_are_no_numbers_are_named(tmp_path):
    raw = rng().normal(size=(200, 43))
    raw[170, 7] = np.nan
    write_npy(tmp_path / "miniboone" / "data.npy", raw)
    with pytest.raises(ValueError, match=r"data.npy: row 170, column 7 is nan, not a finite number"):
        load_table("miniboone", tmp_path, verify=False)


def test_constant_columns_are_dropped_and_named():
    train = np.ones((5, 3), np.float32) * np.array([1, 2, 3], np.float32)
    train[:, 1] = np.arange(5)
    splits, note = drop_constant((train, train[:2] + 1))
    assert [rows.shape for rows in splits] == [(5, 1), (2, 1)]
    assert note == "constant columns dropped: 0, 2"
    with pytest.raises(ValueError, match="every column"):
        drop_constant((np.ones((5, 3), np.float32),))
    assert is_constant(np.array([[1e6, 1e-9], [1e6 + 1e-3, 0.0], [1e6, 1.0]])).tolist() == [True, False]


def test_a_constant_column_of_a_table_is_no_variable(tmp_path):
    raw = rng().normal(size=(200, 43))
    raw[:, 4] = 0.25
    write_npy(tmp_path / "miniboone" / "data.npy", raw)
    rows = load_table("miniboone", tmp_path, verify=False)
    assert (rows.num_variables, rows.note) == (42, "constant columns dropped: 4")


def test_scaling_leaves_constant_columns_finite():
    scaling = Scaling.of(np.array([[0.0, 5.0], [2.0, 5.0]]))
    np.testing.assert_array_equal(scaling(np.array([[4.0, 6.0]])), [[3.0, 1.0]])


# ---- the small tables ----


def uci(folder, shape=(40, 9)):
    path = folder / "energy" / "data.txt"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(" ".join(f"{v:.6f}" for v in row) for row in rng().normal(size=shape)) + "\n")
    return path


def test_a_split_is_a_function_of_its_number(tmp_path):
    uci(tmp_path)
    first, again, other = (load_uci("energy", tmp_path, split=s, verify=False) for s in (0, 0, 1))
    np.testing.assert_array_equal(first.train[:], again.train[:])
    assert not np.array_equal(first.train[:], other.train[:])
    assert (len(first.train), len(first.valid), len(first.test)) == (32, 4, 4)
    np.testing.assert_allclose(np.asarray(first.train[:]).mean(0), 0, atol=1e-6)
    assert (first.note, other.note) == ("split 0", "split 1")


def test_the_splits_of_a_table_hold_all_its_rows_once(tmp_path):
    path = uci(tmp_path)
    rows = load_uci("energy", tmp_path, verify=False)
    together = np.concatenate([rows.train, rows.valid, rows.test])[:, 0]
    original = np.loadtxt(path)[:, 0]
    assert np.corrcoef(np.sort(together), np.sort(original))[0, 1] == pytest.approx(1.0)


def test_every_split_has_the_same_variables(tmp_path):
    path = uci(tmp_path)
    table = np.loadtxt(path)
    table[:, 2], table[:, 5] = 7.0, 3.0
    table[17, 5] = 4.0  # constant but for a row that is not in every split's training rows
    np.savetxt(path, table)
    found = [load_uci("energy", tmp_path, split=split, verify=False) for split in range(20)]
    assert {rows.num_variables for rows in found} == {8}
    assert found[3].note == "split 3; constant columns dropped: 2"
    assert any(len(np.unique(rows.train[:, 4])) == 1 for rows in found)
    assert all(np.isfinite(rows.test[:]).all() for rows in found)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text, r"has 40 rows of 9 numbers, expected 768 of 9: it is truncated or another table"),
        (lambda text: text + "1 2 3\n", r"line 41 has 3 numbers, the lines before it 9"),
        (lambda text: text.replace("0.", "x", 1), r"line 1: could not convert"),
        (lambda text: "nan " * 9, r"line 1 has a number that is not finite"),
        (lambda text: "\n\n", "is empty"),
    ],
)
def test_a_wrong_table_is_refused(tmp_path, change, message):
    path = uci(tmp_path)
    path.write_text(change(path.read_text()))
    with pytest.raises(ValueError, match=message):
        load_uci("energy", tmp_path)


# ---- by name ----


@pytest.mark.parametrize("name", [name for name in SETS if name not in (*FOLDERS, "table")])
def test_an_absent_set_says_where_it_is_published_and_what_to_do(tmp_path, monkeypatch, name):
    monkeypatch.setenv("MAC_CACHE", str(tmp_path / "cache"))
    with pytest.raises(ValueError, match="How to get it") as error:
        load_rows(name)
    message = str(error.value)
    assert "http" in message
    assert f"data.download=true fetch it into {tmp_path / 'cache'}" in message
    assert "data.root or $MAC_DATA" in message
    with pytest.raises(ValueError, match=str(tmp_path / "elsewhere")):
        load_rows(name, tmp_path / "elsewhere")


def test_unknown_names_and_options_are_refused():
    with pytest.raises(ValueError, match=r"unknown data set 'cifar'; .* did you mean 'cifar10'"):
        load_rows("cifar")
    with pytest.raises(ValueError, match="mnist takes no option 'chunk'; it takes none"):
        load_rows("mnist", chunk=3)
    with pytest.raises(ValueError, match="split must be a whole number of at least 0, got -1"):
        load_rows("energy", split=-1)
