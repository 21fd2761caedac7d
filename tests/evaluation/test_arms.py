"""Arms by name, the policies they need, and what is said when those are missing."""

import json

import numpy as np
import pytest

from mac_policy.common.files import CheckpointError
from mac_policy.evaluation.arms import Runs, check_arms, check_seeds, datasets, make_teams, parse_arm
from tests.evaluation.fork_runs import operator, save_all, save_run, teams


@pytest.fixture
def runs(tmp_path):
    return Runs(save_all(tmp_path / "runs"), "fork")


def folders(team):
    policy = None if team.operator is None else team.operator.policy
    return [None if p is None else p.folder.rpartition("/")[2] for p in (policy, team.filler)]


def test_the_operator_and_the_filler_are_differently_seeded(runs):
    save_all(runs.root, seeds=(3,))
    names = ("operator+bc", "operator+mac", "operator+mac-blind", "mac", "bc", "zeros", "operator")
    found = teams(runs.root, *names, seeds=(3,), acting=operator("bc"))
    assert {team.arm: folders(team) for team in found} == {
        "operator+bc": ["bc-s3", "bc-s103"],
        "operator+mac": ["bc-s3", "mac-s3"],
        "operator+mac-blind": ["bc-s3", "mac-s3"],
        "mac": [None, "mac-s3"],
        "bc": [None, "bc-s103"],
        "zeros": ["bc-s3", None],
        "operator": ["bc-s3", None],
    }
    assert [team.see_operator for team in found] == [True, True, False, True, True, True, True]
    assert [str(team.operator.dims) for team in found[-2:]] == ["[0]", "[0,1]"]


def test_other_trained_policies_are_arms_too(runs):
    bc = operator("bc")
    assert runs.usual_arms([0], bc) == ["operator+bc", "operator+mac", "operator+mac-blind", "mac", "bc", "zeros"]
    save_run(runs.root, "ibc", 0)
    save_run(runs.root, "mac", 0, name="wide")
    assert runs.usual_arms([0], bc)[-3:] == ["bc", "ibc", "zeros"]
    assert "ibc" not in runs.usual_arms([0, 1], bc)  # not trained for all
    assert [runs.usual_arms([0], operator(kind))[-1] for kind in ("expert", "noisy", "zeros")] == [
        "operator", "operator", "zeros"
    ]  # fmt: skip
    arms = check_arms(["operator+wide", "wide", "operator+ibc-blind"], runs)
    assert [arm.run for arm in arms] == ["wide", "wide", "ibc"]
    assert [folders(t) for t in make_teams(arms[:1], [0], runs, operator())] == [[None, "wide-s0"]]


def test_runs_under_another_name_take_their_place(runs):
    save_run(runs.root, "mac", 0, name="wide")
    renamed = Runs(runs.root, "fork", {"mac": "wide"}, {"temperature": 0.3, "decode": "sample"})
    (mac,) = make_teams([parse_arm("mac")], [0], renamed, operator())
    (bc,) = make_teams([parse_arm("bc")], [0], renamed, operator())
    assert folders(mac) == [None, "wide-s0"]
    assert dict(mac.filler.settings) == {"temperature": 0.3, "decode": "sample"}
    assert bc.filler.settings == ()  # BC knows no temperature
    assert mac.filler.load().settings.temperature == 0.3


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["operator+mca"], "unknown policy in arms 'mca'.*did you mean 'mac'"),
        (["mac-blind"], r"unknown arm 'mac-blind'; allowed are operator\+<policy>"),
        (["operator+"], r"unknown arm 'operator\+'"),
        ([3], "unknown policy in arms '3'"),
        (["mac", "mac"], "one or more different names"),
        ([], "one or more different names"),
    ],
)
def test_unknown_arms_are_named(runs, names, message):
    with pytest.raises(ValueError, match=message):
        check_arms(names, runs)


@pytest.mark.parametrize("seeds", [[], [0, 0], [-1], ["0"], [0.5]])
def test_training_seeds_are_different_whole_numbers(seeds):
    with pytest.raises(ValueError, match=r"training.seed"):
        check_seeds(seeds)


def missing(runs, *names, seeds=(0,), acting=None):
    with pytest.raises(CheckpointError) as error:
        make_teams([parse_arm(name) for name in names], list(seeds), runs, acting or operator("bc"))
    return str(error.value).splitlines()


def test_what_is_missing_is_said_with_the_command_that_trains_it(runs, tmp_path):
    nothing = missing(Runs(tmp_path / "none", "fork"), "operator+mac", "bc")
    assert nothing[0].startswith(f"nothing is trained in {tmp_path / 'none' / 'fork'}")
    assert nothing[1:] == [f"  python scripts/train_policy.py task=fork seed=0 runs={tmp_path / 'none'}"]
    some = missing(runs, "operator+mac", "bc", seeds=(0, 1, 2))
    assert some[0].startswith("bc-s1, bc-s2, mac-s1, bc-s101, mac-s2, bc-s102 are not trained in")
    assert some[1].startswith("  python scripts/train_policy.py -m task=fork seed=1,2 ")
    assert missing(runs, "ibc")[1].startswith("  python scripts/train_policy.py task=fork policy=ibc seed=0 ")
    other = Runs(runs.root, "fork", {"mac": "wide"})
    assert " policy=mac name=wide seed=0 " in missing(other, "operator+mac")[1]
    make_teams([parse_arm("zeros")], [5], runs, operator("expert"))  # needs no policy


def test_an_unfinished_training_counts_as_missing(runs):
    path = runs.run_folder("mac", 0) / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"training": {"finished": False}}))
    assert missing(runs, "mac")[0].startswith("mac-s0 is not trained")


def test_the_data_of_all_policies_are_told_once(runs):
    found = datasets(teams(runs.root, "operator+mac", "bc", acting=operator("bc")))
    assert [data["source"] for data in found] == ["scripted"]


def test_a_recorded_operator_is_read_from_its_file(tmp_path):
    path = tmp_path / "actions.npy"
    np.save(path, np.array([[0.5, -0.5], [0.25, 0.0]], np.float32))
    acting = operator("replay", path=str(path))
    replayed = acting([Space()])
    assert replayed(np.zeros(2)).values.tolist() == [0.5, -0.5]
    assert acting.identity()["file"] != operator("replay", path=__file__).identity()["file"]
    for settings, message in (
        ({"kind": "replay"}, "needs operator.path"),
        ({"kind": "sb3", "path": "nowhere.zip"}, "there is no such file"),
        ({"kind": "noisy", "p": 1.5}, r"operator.p must be in \[0, 1\], got 1.5"),
        ({"kind": "noisy", "inner": "laggy"}, "unknown inner operator 'laggy'"),
        ({"kind": "exprt"}, "did you mean 'expert'"),
    ):
        with pytest.raises(ValueError, match=message):
            operator(**settings)
    path.write_text("no array")
    for broken in (acting, operator("noisy", inner="replay", path=str(path))):
        with pytest.raises(ValueError, match="holds no recorded actions"):
            broken.check(Space.action_space)


class Space:
    from envs.fork.environment import Fork

    action_space = Fork().action_space
