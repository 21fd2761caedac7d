"""Labels: classes by name and number, and what is said of a batch of rows."""

import numpy as np
import pytest

from mac_policy.common.labels import UNSAID, Label, label_codes

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
