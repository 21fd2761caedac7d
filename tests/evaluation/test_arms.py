"""Arms by name, the policies they need, and what is said when those are missing."""

import json

import numpy as np
import pytest
from gymnasium import spaces

from envs.kitchen.intent_task import IntentTask
from mac_policy.common.files import CheckpointError
from mac_policy.evaluation.arms import Runs, check_arms, check_seeds, datasets, make_teams, parse_arm
from mac_policy.evaluation.comparison import ComparisonSettings, plan
from mac_policy.evaluation.teams import OperatorChoice
from mac_policy.operators.dims import OperatorDims
from mac_policy.operators.registry import make_kind
from mac_policy.policies.checkpoint import save_policy
from mac_policy.policies.registry import make_policy
from mac_policy.policies.spaces import Spaces
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
    unknown = Runs(runs.root, "fork", {"mac": "wyde"})
    with pytest.raises(ValueError, match=r"unknown run in mac= 'wyde'; allowed are .*did you mean 'wide'"):
        make_teams([parse_arm("bc")], [0], unknown, operator())  # though no arm needs it


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["operator+mca"], "unknown policy in arms 'mca'.*did you mean 'mac'"),
        (["mac-blind"], r"unknown arm 'mac-blind'; allowed are operator\+<policy>"),
        (["operator+"], r"unknown arm 'operator\+'"),
        (["operator+mac-told-blind"], r"unknown arm 'operator\+mac-told-blind'"),
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
        ({"kind": "sb3", "path": "nowhere.zip"}, "there is no such file"),
        ({"kind": "noisy", "p": 1.5}, r"operator.p must be in \[0, 1\], got 1.5"),
        ({"kind": "noisy", "inner": "laggy"}, "unknown inner operator 'laggy'"),
        ({"kind": "exprt"}, "did you mean 'expert'"),
    ):
        with pytest.raises(ValueError, match=message):
            operator(**settings)
    np.save(path, np.array([[0.5, 0.0], [0.0, 1e300]]))
    with pytest.raises(ValueError, match=r"operator\.path=.*actions hold NaN or infinity, first at step 1"):
        acting.check(Space.action_space)
    path.write_text("no array")
    for broken in (acting, operator("noisy", inner="replay", path=str(path))):
        with pytest.raises(ValueError, match="holds no recorded actions"):
            broken.check(Space.action_space)


class Space:
    from envs.fork.environment import Fork

    action_space = Fork().action_space


KITCHEN = IntentTask()


def kitchen_runs(tmp_path, **settings):
    """The runs of the experiment about intents, untrained, with labels where they have them."""
    made = Runs(tmp_path / "runs", KITCHEN.name, experiment=KITCHEN.experiment, **settings)
    for run in KITCHEN.experiment.runs:
        save_kitchen(made.run_folder(run.run, run.seed), run.kind, KITCHEN.labels if run.labels else ())
    return made


def save_kitchen(folder, kind, known_labels=KITCHEN.labels, **settings):
    box = spaces.Box(-1, 1, (30,), np.float32)
    known = Spaces.of(box, KITCHEN.action_space, KITCHEN.actions, known_labels)
    policy = make_policy(kind, known, {"width": 8, **settings}, 0)
    save_policy(policy, folder, dataset={"source": "scripted", "sha256": "5" * 64})


def commanding(kind="expert", dims=4, **settings):
    return OperatorChoice(make_kind(kind, settings), OperatorDims.parse(dims, 9), task=KITCHEN)


def test_the_experiment_about_intents_has_its_arms_and_runs(tmp_path):
    runs = kitchen_runs(tmp_path)
    names = runs.usual_arms([0], commanding())
    assert names == list(KITCHEN.experiment.arms)
    teams = {team.arm: team for team in make_teams(check_arms(names, runs), [0], runs, commanding())}
    assert {arm: team.filler and team.filler.folder.rpartition("/")[2] for arm, team in teams.items()} == {
        "operator": None, "operator+mac": "mac-s0", "operator+mac-unaware": "mac-unaware-s0",
        "operator+mac-told": "mac-s0", "operator+mac-blind": "mac-s0", "operator+bc": "bc-s100",
        "operator+bc-told": "bc-told-s0", "mac-told": "mac-s0", "bc-told": "bc-told-s0", "mac": "mac-s0",
        "bc": "bc-s100", "zeros": None,
    }  # fmt: skip
    assert [arm for arm, team in teams.items() if team.told] == [
        "operator+mac-told", "operator+bc-told", "mac-told", "bc-told"
    ]  # fmt: skip
    held = {arm: None if team.operator is None else str(team.operator.dims) for arm, team in teams.items()}
    assert held["operator"] == "[0,1,2,3,4,5,6,7,8]"
    assert held["operator+mac-told"] == held["zeros"] == "[0,1,2,3]"
    assert held["mac-told"] == held["bc-told"] == "0"  # nothing is held, it is only said
    assert held["mac"] is held["bc"] is None


def test_who_holds_nothing_is_the_policy_alone(tmp_path):
    runs = kitchen_runs(tmp_path)
    arms = check_arms(["operator+mac", "operator+mac-blind", "mac", "operator+mac-told", "mac-told"], runs)
    made = make_teams(arms, [0], runs, commanding(dims=0))
    assert made[0].identity() == made[1].identity() == made[2].identity()
    assert made[3].identity() == made[4].identity() != made[0].identity()


def test_a_blind_policy_chooses_as_the_one_that_sees(tmp_path):
    runs = kitchen_runs(tmp_path)
    save_kitchen(runs.run_folder("mac", 0), "mac", decode_alone="sample")
    names = ["operator+mac", "operator+mac-blind", "mac"]
    seeing, blind, alone = (team.filler for team in make_teams(check_arms(names, runs), [0], runs, commanding()))
    assert seeing.settings == alone.settings == ()
    assert dict(blind.settings) == {"decode_alone": None}
    assert blind.load().settings.decode == seeing.load().settings.decode


def test_who_only_says_what_is_wanted_holds_nothing(tmp_path):
    runs = kitchen_runs(tmp_path)
    assert "operator" not in runs.usual_arms([0], commanding(says_only=True))
    settings = ComparisonSettings(runs=runs.root)
    compared = plan(KITCHEN, make_kind("expert", {"says_only": True}), 4, settings)
    assert list(compared.teams) == ["0"]
    assert "it holds nothing." in compared.facts("0")[1]
    several = plan(KITCHEN, make_kind("expert", {"slow": 5}), [[0, 1, 2, 3], "random-4", "none"], settings)
    assert list(several.teams) == ["[0,1,2,3]", "random-4", "0"]
    assert several.title("0") == "kitchen-intent, operator expert, slow 5"


def test_who_decides_what_counts_is_there_in_every_arm(tmp_path):
    runs = kitchen_runs(tmp_path)
    for kind, settings in (("expert", {"changes_mind": True}), ("replay", {})):
        acting = commanding(kind, **settings)
        (team,) = make_teams(check_arms(["mac"], runs), [0], runs, acting)
        assert team.operator is not None
        assert str(team.operator.dims) == "0"
        assert not team.told


def test_a_policy_can_be_told_only_what_somebody_says_and_it_knows(tmp_path):
    runs = kitchen_runs(tmp_path)
    save_kitchen(runs.run_folder("deaf", 0), "mac", labels=False)
    assert not any(name.endswith("-told") for name in runs.usual_arms([0], commanding("bc")))
    for arms, acting, message in (
        (["mac-told"], commanding("bc"), "mac-told: .* a 'bc' operator says nothing; operator=expert does"),
        (["operator+mac-unaware-told"], commanding(), "mac-unaware-s0 was trained without labels"),
        (["deaf-told"], commanding(), "deaf-s0 was trained without labels"),
        (["mac-told"], operator(), "the task has no labels"),
    ):
        with pytest.raises(ValueError, match=message):
            make_teams(check_arms(arms, runs), [0], runs, acting)


def test_what_the_experiment_lacks_is_trained_by_one_command(tmp_path):
    runs = Runs(tmp_path / "none", KITCHEN.name, experiment=KITCHEN.experiment)
    with pytest.raises(CheckpointError) as error:
        make_teams(check_arms(list(KITCHEN.experiment.arms), runs), [0, 1], runs, commanding())
    (_, command) = str(error.value).splitlines()
    assert (
        command
        == f"  python scripts/train_policy.py -m task=kitchen-intent seed=0,1 preset=intent runs={tmp_path / 'none'}"
    )


def test_operators_that_a_task_cannot_have_are_refused_before_anything_is_rolled_out():
    for kind, settings, message in (
        (
            "expert",
            {"cooperative": True},
            "operator.cooperative=true: the expert of task=fork has no such manner",
        ),
        ("replay", {}, "task=fork has no held-out recordings: give operator.path=FILE"),
    ):
        with pytest.raises(ValueError, match=message):
            operator(kind, **settings).check(Space.action_space)
