"""Which runs are the same, and which budgets and files do not fit them."""

import dataclasses

import numpy as np
import pytest

from mac_policy.rows.likelihoods.presets import rows_of_arm
from mac_policy.rows.likelihoods.training import ArmRun, Budget, Variation
from mac_policy.rows.sets.row_set import RowSet
from mac_policy.rows.spec import build
from mac_policy.training.state import ResumeError
from tests.rows.helpers import a_run, letters, numbers, one_process, quickly, spec


def test_how_many_test_rows_there_are_is_no_part_of_a_run(tmp_path):
    limited = dataclasses.replace(letters(), note="split 0").limited(test=3)
    assert a_run(tmp_path, rows=limited).go()
    again = a_run(tmp_path, rows=dataclasses.replace(letters(), note="split 0"))
    assert not again.go()
    with pytest.raises(ResumeError, match=r"data.note was 'split 0' and is now 'split 1'"):
        a_run(tmp_path, rows=dataclasses.replace(limited, note="split 1")).go()
    with pytest.raises(ResumeError, match="first 50 of 60 train rows"):
        a_run(tmp_path, rows=limited.limited(train=50)).go()


@pytest.mark.parametrize(
    ("rows", "variation", "message"),
    [
        (letters(), {"noise": 0.1}, "noise=0.1 is for real numbers, these rows have values 0..2"),
        (numbers(), {"images": ("flip",)}, r"images=\[flip\] is for images, these rows have shape \(4,\)"),
        (
            RowSet("pictures", *(np.zeros((4, 6), np.uint8) for _ in range(3)), (1, 2, 3), 3, "memory", "0" * 64),
            {"images": ("rotate",)},
            "only square images can be rotated, these are 2 x 3",
        ),
    ],
)
def test_a_variation_that_does_not_fit_the_rows_is_refused_before_training(tmp_path, rows, variation, message):
    described = spec(head={"kind": "gaussian"} if rows.levels is None else None, rows=rows)
    budget = Budget(quickly(), variation=Variation(**variation))
    with pytest.raises(ValueError, match=message):
        ArmRun(build(described), described, rows, budget, tmp_path, seed=0, fabric=one_process())
    assert not list(tmp_path.iterdir())


def test_an_arm_is_asked_for_the_files_that_it_was_trained_on(tmp_path, monkeypatch):
    rows = dataclasses.replace(letters(), name="text8")
    monkeypatch.setattr("mac_policy.rows.likelihoods.presets.load_rows", lambda *a, **k: rows)
    a_run(tmp_path, rows=rows).go()
    assert rows_of_arm(tmp_path).sha256 == "0" * 64
    other = dataclasses.replace(rows, sha256="5" * 64)
    monkeypatch.setattr("mac_policy.rows.likelihoods.presets.load_rows", lambda *a, **k: other)
    with pytest.raises(ValueError, match=f"other data than memory: sha256 {'0' * 64}, here {'5' * 64}; set root or"):
        rows_of_arm(tmp_path)
