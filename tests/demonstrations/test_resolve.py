import shutil
import time
import warnings
from dataclasses import replace

import numpy as np
import pytest
from gymnasium import spaces
from rich.console import Console

from mac_policy.common.digest import file_sha256
from mac_policy.common.download import Unavailable
from mac_policy.demonstrations import OfficialFile, Scripted, TaskData, minari_store, resolve, write_minari
from mac_policy.demonstrations.resolve import ScriptedStandIn, load
from tests.demonstrations.helpers import make_demonstrations, record, write_d4rl


@pytest.fixture
def task(tmp_path):
    file = write_d4rl(tmp_path / "shelf.hdf5")
    return TaskData(
        name="made-up",
        action_space=spaces.Box(-1, 1, (2,), np.float32),
        views={"two": {3: (2, 0)}, "four": {4: (0, 1, 2, 3)}},
        minari_id="lab/made-up-v0",
        official=OfficialFile("made-up-v0", "made_up.hdf5", file.as_uri(), file_sha256(file)),
        published_kind="human",
        scripted=Scripted(record, episodes=3),
    )


@pytest.fixture
def console():
    return Console(record=True, width=200, quiet=False, file=open("/dev/null", "w"))  # noqa: PTH123


def in_mac_data(task, tmp_path, monkeypatch, folder="."):
    target = tmp_path / "real" / folder
    target.mkdir(parents=True, exist_ok=True)
    shutil.copy(tmp_path / "shelf.hdf5", target / task.official.file_name)
    monkeypatch.setenv("MAC_DATA", str(tmp_path / "real"))


def test_the_first_place_that_has_the_data_is_used(task, tmp_path, monkeypatch, console):
    """Filled from the last place to the first, each takes over from the one before."""
    with pytest.warns(ScriptedStandIn):
        assert load(task, console=console).source.kind == "scripted"

    def fetch(dataset_id):
        return write_minari(make_demonstrations((2,)), dataset_id)

    monkeypatch.setattr(resolve, "fetch_minari", fetch)
    remote_set = load(task, console=console)
    assert (remote_set.source.kind, remote_set.steps) == ("human", 2)
    monkeypatch.setattr(resolve, "fetch_minari", None)  # the local store has it now
    assert load(task, console=console).steps == 2
    in_mac_data(task, tmp_path, monkeypatch, "d4rl")
    assert load(task, console=console).source.location.startswith(str(tmp_path / "real" / "d4rl"))
    explicit = write_d4rl(tmp_path / "mine.hdf5", (9, 9))
    assert load(task, path=explicit, console=console).steps == 18


def test_which_source_was_used_is_said(task, tmp_path, monkeypatch, console):
    in_mac_data(task, tmp_path, monkeypatch)
    load(task, console=console)
    said = console.export_text()
    assert "made_up (human), 3 episodes, 12 steps, from" in said
    assert str(tmp_path / "real" / "made_up.hdf5") in said


def test_scripted_data_standing_in_cannot_be_missed(task, console):
    with pytest.warns(ScriptedStandIn, match=r"No human demonstrations.*\$MAC_DATA: .*Minari remote: "):
        load(task, console=console)
    said = console.export_text()
    for text in ("SCRIPTED DEMONSTRATIONS", "MAC_DATA is not set", "has no lab/made-up-v0", "data.source=human"):
        assert text in said


def test_scripted_data_asked_for_come_without_a_warning(task, console):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        demos = load(task, source="scripted", console=console)
    assert demos.source.name == "mac-policy/made-up-scripted-v0"
    assert "SCRIPTED DEMONSTRATIONS" not in console.export_text()


def test_a_task_with_nothing_published_comes_without_a_warning(task, console):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(replace(task, minari_id=None, official=None), console=console)


def test_scripted_data_are_recorded_once(task, console, monkeypatch):
    first = load(task, source="scripted", console=console)
    monkeypatch.setattr(resolve, "collect_into_store", None)
    assert load(task, source="scripted", console=console).source.sha256 == first.source.sha256


def test_human_data_or_an_error_that_says_how_to_get_them(task, console):
    load(task, source="scripted", console=console)  # stored, and still not taken
    with pytest.raises(ValueError, match=r"data\.source=human") as error:
        load(task, source="human", console=console)
    said = str(error.value)
    for text in ("minari download lab/made-up-v0", task.official.url, "MAC_DATA=", "data.source=d4rl"):
        assert text in said


def test_scripted_data_in_a_path_are_not_human(task, console):
    folder = write_minari(make_demonstrations(kind="scripted"), "lab/robot-v0")
    with pytest.raises(ValueError, match="holds scripted demonstrations"):
        load(task, source="human", path=folder, console=console)
    assert load(task, path=folder, console=console).source.kind == "scripted"


def test_the_official_file_is_fetched_when_asked_for_and_found_later(task, console, tmp_path):
    assert load(task, source="d4rl", console=console).source.kind == "human"
    (tmp_path / "shelf.hdf5").unlink()
    assert load(task, source="human", console=console).steps == 12


def test_a_changed_official_file_is_refused(task, tmp_path, monkeypatch, console):
    in_mac_data(task, tmp_path, monkeypatch)
    write_d4rl(tmp_path / "real" / "made_up.hdf5", (4, 4))
    with pytest.raises(ValueError, match="is not the official made-up-v0 file"):
        load(task, console=console)


def test_a_view_selects_its_columns(task, tmp_path, console):
    whole = load(task, path=tmp_path / "shelf.hdf5", console=console)
    seen = load(task, path=tmp_path / "shelf.hdf5", observation="two", console=console)
    np.testing.assert_array_equal(seen.observations, whole.observations[:, [2, 0]])


def test_a_view_that_the_source_does_not_have_is_explained(task, tmp_path, console):
    with pytest.raises(ValueError, match=r"needs a source with 4 values.*has 3.*observation=two"):
        load(task, path=tmp_path / "shelf.hdf5", observation="four", console=console)
    with pytest.raises(ValueError, match=r"unknown observation view of made-up 'tow'.*did you mean 'two'"):
        load(task, observation="tow", console=console)


def test_actions_outside_the_space_are_clipped_or_refused(task, tmp_path, console):
    path = write_d4rl(tmp_path / "wild.hdf5", actions=np.full((12, 2), 1.25, np.float32))
    with pytest.warns(UserWarning, match="24 of 24 action values"):
        demos = load(task, path=path, console=console)
    assert demos.actions.max() == 1.0
    with pytest.raises(ValueError, match="24 of 24 action values"):
        load(task, path=path, outside="refuse", console=console)


def test_actions_of_another_width_than_the_task_are_refused(task, tmp_path, console):
    path = write_d4rl(tmp_path / "wide.hdf5", actions=np.zeros((12, 5), np.float32))
    with pytest.raises(ValueError, match=r"wide\.hdf5, episode 0: actions has shape \(5, 5\), expected 2 values"):
        load(task, path=path, console=console)


def test_as_many_scripted_episodes_as_asked_for(task, console):
    whole = load(task, source="scripted", console=console)
    first = load(task, source="scripted", episodes=2, console=console)
    assert (len(whole), len(first), first.source.episodes) == (3, 2, 2)
    np.testing.assert_array_equal(first.actions, np.concatenate([e.actions for e in whole.episodes[:2]]))
    with pytest.raises(ValueError, match=r"holds 3 episodes, not episodes=5; .*overwrite=true"):
        load(task, source="scripted", episodes=5, console=console)


def test_a_stored_set_of_another_demonstrator_is_said(task, console):
    def by(demonstrator):
        return replace(task, scripted=replace(task.scripted, modules=(demonstrator,)))

    load(by("mac_policy.common"), source="scripted", console=console)
    with pytest.warns(UserWarning, match=r"made-up-scripted-v0 was recorded by another version.*overwrite=true"):
        load(by("mac_policy.core"), source="scripted", console=console)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(by("mac_policy.common"), source="scripted", console=console)


def test_an_unknown_source_names_the_nearest(task, console):
    with pytest.raises(ValueError, match=r"unknown data\.source 'humans'.*did you mean 'human'"):
        load(task, source="humans", console=console)


def test_a_path_that_is_nothing_is_named(task, tmp_path, console):
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(ValueError, match="neither a Minari folder nor a D4RL file"):
        load(task, path=tmp_path / "notes.txt", console=console)
    with pytest.raises(ValueError, match="no Minari data set"):
        load(task, path=tmp_path, console=console)
    with pytest.raises(ValueError, match="no file at"):
        load(task, path=tmp_path / "nowhere.hdf5", console=console)


def test_without_the_internet_the_scripted_set_comes_soon(task, console, monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr(minari_store, "LOOK_UP_SECONDS", 0.3)

    def hang(url):
        time.sleep(5)
        raise OSError("no such name")  # the thread that is left behind asks nobody, in the middle of another test

    monkeypatch.setattr(minari_store, "_reach", hang)  # a name look-up that hangs
    start = time.monotonic()
    with pytest.warns(ScriptedStandIn, match=r"no answer within 0\.3 s"):
        load(task, console=console)
    assert time.monotonic() - start < 4


def test_unavailable_is_no_error_of_the_user():
    assert not issubclass(Unavailable, (ValueError, OSError))
