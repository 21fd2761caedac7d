"""What shared_autonomy.py makes of its options, before anything is rolled out."""

import pytest

import envs  # noqa: F401  (registers the tasks)
from mac_policy.cli.shared_autonomy import make_plan
from mac_policy.evaluation.comparison import slug, specifications
from tests.evaluation.fork_runs import save_all
from tests.scripts.helpers import composed


def plan(*options):
    return make_plan(composed("shared_autonomy", "task=fork", "operator_dims=1", *options))


def test_names_that_look_like_numbers_are_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_all(tmp_path / "7")
    assert str(plan("runs=7", "out=2024").out) == "2024"
    assert plan("runs=7").out.parts[0] == "7"
    with pytest.raises(ValueError, match=r"operator\.path=3: there is no such file"):
        plan("runs=7", "operator=replay", "operator.path=3")


def test_every_specification_of_dims_has_a_folder_of_its_own():
    given = ["0", "[0]", "[0,2,4,8]", "[10,11]", "random-4", "random-4-step"]
    assert len({slug(dims) for dims in given}) == len(given)
    assert slug("[0,2,4,8]") == "0248"


def test_a_list_of_names_is_one_specification():
    names = ("joint1", "joint2", "finger")
    assert specifications(["joint1", 2], names) == [["joint1", 2]]
    assert specifications(["joint1", "random-4"], names) == ["joint1", "random-4"]
    assert specifications([["joint1"], "none"], names) == [["joint1"], "none"]
    assert specifications([0, 1], names) == [[0, 1]]


def test_dims_that_are_asked_for_twice_are_refused(tmp_path):
    save_all(tmp_path)
    with pytest.raises(ValueError, match=r"contains \[0\] twice"):
        plan(f"runs={tmp_path}", "operator_dims=[[0],[0]]")
