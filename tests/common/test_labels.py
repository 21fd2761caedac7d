"""Labels: classes by name and number, and what is said of a batch of rows."""

import numpy as np
import pytest
import torch

from mac_policy.common.labels import UNSAID, Ahead, Label, differ, in_order, is_said, label_codes

TASK = Label("task", ("kettle", "microwave", "none"))
SIDE = Label("side", ("left", "right"))


def test_a_class_by_name_number_and_unsaid():
    assert [TASK.code(said) for said in ("none", 1, np.int64(0), None)] == [2, 1, 0, UNSAID]


@pytest.mark.parametrize(
    ("said", "codes"),
    [
        (None, [[-1, -1], [-1, -1]]),
        ({"side": "right"}, [[-1, 1], [-1, 1]]),
        ({"task": ["kettle", None], "side": [0, "right"]}, [[0, 0], [-1, 1]]),
        (np.array([2, -1]), [[2, -1], [2, -1]]),
        (np.array([[2, -1], [0, 1]]), [[2, -1], [0, 1]]),
    ],
)
def test_what_is_said_of_two_rows(said, codes):
    np.testing.assert_array_equal(label_codes((TASK, SIDE), said, 2), codes)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"task": "ketle"}, "did you mean 'kettle'"),
        ({"tsk": "kettle"}, "did you mean 'task'"),
        ({"task": 3}, r"0\.\.2"),
        ({"task": 1.0}, "unknown class"),
        ({"task": True}, "unknown class"),
        ({"task": ["kettle"]}, "1 entries for 2 rows"),
        (np.array([3, 0]), r"0\.\.2"),
        (np.array([0.0, 1.0]), "integers"),
        (np.zeros((3, 2), int), "integers"),
        ("kettle", "mapping"),
        (np.array([2**64 - 1, 0], np.uint64), r"0\.\.2"),
    ],
)
def test_wrong_labels_are_named(said, message):
    with pytest.raises(ValueError, match=message):
        label_codes((TASK, SIDE), said, 2)


def test_a_policy_without_labels_takes_none():
    assert label_codes((), None, 3).shape == (3, 0)
    with pytest.raises(ValueError, match="no labels"):
        label_codes((), {"task": "kettle"}, 1)


@pytest.mark.parametrize(
    ("name", "classes"), [("", ("a", "b")), ("task", ("a",)), ("task", ("a", "a")), ("task", ("a", 3))]
)
def test_labels_that_cannot_be(name, classes):
    with pytest.raises(ValueError, match="label"):
        Label(name, classes)


# ---- labels of real values ----

PLACE = Ahead("place", 3, 20)
MIXED = in_order([PLACE, TASK])
NAN = float("nan")


@pytest.mark.parametrize(
    ("said", "codes"),
    [
        (None, [[-1, NAN], [-1, NAN]]),
        ({"place": 0.5}, [[-1, 0.5], [-1, 0.5]]),
        ({"place": [None, -1], "task": ["none", None]}, [[2, NAN], [-1, -1]]),
        (np.array([1, -0.5]), [[1, -0.5], [1, -0.5]]),
        (np.array([[1, NAN], [-1, 2]]), [[1, NAN], [-1, 2]]),
    ],
)
def test_categories_beside_numbers(said, codes):
    found = label_codes(MIXED, said, 2)
    np.testing.assert_array_equal(found, np.array(codes, np.float32))
    expected = [[task >= 0, place == place] for task, place in codes]
    for each in (found, torch.from_numpy(found)):
        assert is_said(MIXED, each).tolist() == expected


def test_two_rows_differ_unless_the_same_is_said():
    some = np.array([[1, NAN], [1, NAN], [-1, 2.0], [-1, 2.0], [0, 1.0]])
    others = np.array([[1, NAN], [1, 2.0], [-1, 2.0], [0, 2.0], [0, NAN]])
    assert differ(some, others).tolist() == [False, True, False, True, True]
    assert differ(some[:, :1].astype(int), others[:, :1].astype(int)).tolist() == [False, False, False, True, False]


def test_a_number_is_said_as_it_is():
    assert [PLACE.code(said) for said in (2, np.float32(0.5), np.array(0.25))] == [2.0, 0.5, 0.25]
    assert np.isnan(PLACE.code(None))
    for wrong in ("left", True, np.inf, [1.0]):
        with pytest.raises(ValueError, match="finite number"):
            PLACE.code(wrong)
