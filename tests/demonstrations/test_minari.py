import json
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import gymnasium
import h5py
import minari
import numpy as np
import pytest
from gymnasium import spaces
from minari.data_collector import EpisodeBuffer

from mac_policy.common.labels import Label
from mac_policy.demonstrations import Card, minari_write, read_minari, write_minari
from mac_policy.demonstrations.minari_read import stored_labels
from mac_policy.demonstrations.minari_store import local_ids, local_path
from mac_policy.tasks import MinariTask
from tests.demonstrations.helpers import make_demonstrations


def foreign_set(observation_space, observations, actions=None):
    """A data set as another program would write it."""
    actions = np.zeros((4, 2), np.float32) if actions is None else actions
    steps = len(actions)
    episode = EpisodeBuffer(
        observations=observations,
        actions=actions,
        rewards=np.ones(steps),
        terminations=np.zeros(steps, bool),
        truncations=np.arange(steps) == steps - 1,
        infos={},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Minari would like an author and more
        minari.create_dataset_from_buffers(
            "other/set-v0",
            [episode],
            observation_space=observation_space,
            action_space=spaces.Box(-1, 1, (2,), np.float32),
        )


def box(size):
    return spaces.Box(-np.inf, np.inf, (size,), np.float64)


@pytest.mark.parametrize(
    "changes",
    [{}, {"completed": ("kettle", "light switch"), "executed": np.zeros((5, 2), np.float32), "seed": 11}],
)
def test_what_is_written_is_read_without_a_changed_bit(changes):
    demos = make_demonstrations((5, 5), kind="scripted", **changes)
    folder = write_minari(demos, "lab/made-up-v3")
    for read in (read_minari("lab/made-up-v3"), read_minari(folder), read_minari(folder / "data")):
        assert read.source.sha256 == demos.source.sha256
        assert read.source.kind == "scripted"
        assert read.episodes[1].completed == demos.episodes[1].completed
        assert read.episodes[1].seed == demos.episodes[1].seed


LABELS = (Label("task", ("kettle", "light", "none")), Label("side", ("left", "right")))
CODES = np.array([[0, 1], [0, -1], [2, 0], [-1, 0], [1, 1]])


def test_labels_are_written_with_their_classes_and_read_by_a_task():
    demos = make_demonstrations((5, 5), labels=CODES)
    with pytest.raises(ValueError, match=r"episode 0 has 2 labels, the card names \[\]"):
        write_minari(demos, "lab/labelled-v0")
    folder = write_minari(demos, "lab/labelled-v0", Card(labels=LABELS))
    assert stored_labels(folder) == LABELS
    assert read_minari(folder).labels is None
    assert read_minari(folder, labels=LABELS[1:]).labels.tolist() == [*CODES[:, 1:].tolist()] * 2
    task = MinariTask(dataset="lab/labelled-v0")
    assert task.labels == LABELS
    assert task.load_demonstrations().labels.tolist() == [*CODES.tolist()] * 2
    assert MinariTask(dataset="lab/labelled-v0", classes={}).load_demonstrations().labels is None


def test_names_of_classes_in_the_infos_of_others_are_labels():
    demos = make_demonstrations((5, 5))
    folder = write_minari(demos, "lab/words-v0")
    words = np.array([b"kettle", b"kettle", b"", b"none", b"light"])
    with h5py.File(folder / "data" / "main_data.hdf5", "r+") as file:
        for rows, episode in ((words, "episode_0"), (np.append(b"", words), "episode_1")):
            file[episode].require_group("infos")["skill"] = rows
    task = MinariTask(dataset="lab/words-v0", classes={"skill": ["kettle", "light", "none"]})
    assert task.load_demonstrations().labels[:, 0].tolist() == [0, 0, -1, 2, 1] * 2
    for classes, message in (
        ({"skill": ["kettle", "light"]}, "words-v0.*unknown class of label 'skill' 'none'"),
        ({"skil": ["kettle", "light"]}, r"words-v0.*infos have no label 'skil', but \['skill'\]"),
    ):
        with pytest.raises(ValueError, match=message):
            MinariTask(dataset="lab/words-v0", classes=classes).load_demonstrations()
    with pytest.raises(ValueError, match="needs two or more different class names"):
        MinariTask(dataset="lab/words-v0", classes={"skill": ["kettle"]})


def test_what_is_written_is_a_minari_data_set_for_others():
    demos = make_demonstrations()
    card = Card(
        description="made up",
        algorithm="none",
        author=("A. Author",),
        code_permalink="https://example.org/code",
        env_spec=gymnasium.spec("Pendulum-v1"),
        action_space=spaces.Box(-2, 2, (2,), np.float32),
    )
    write_minari(demos, "lab/made-up-v0", card)
    assert list(minari.list_local_datasets()) == ["lab/made-up-v0"]
    other = minari.load_dataset("lab/made-up-v0")
    assert other.total_steps == 12
    assert other.env_spec.id == "Pendulum-v1"
    assert other.action_space == card.action_space
    assert other.storage.metadata["author"] == {"A. Author"}
    assert other.storage.metadata["code_permalink"] == "https://example.org/code"
    np.testing.assert_array_equal(other[1].observations, demos.episodes[1].observations)


def test_a_dict_observation_is_flattened_in_the_order_of_its_space():
    space = spaces.Dict({"b": box(2), "a": spaces.Dict({"z": box(1), "y": box(1)})})
    columns = {"b": np.arange(10.0).reshape(5, 2), "y": np.full((5, 1), 20.0), "z": np.full((5, 1), 30.0)}
    foreign_set(space, {"b": columns["b"], "a": {"y": columns["y"], "z": columns["z"]}})
    read = read_minari("other/set-v0")
    assert read.source.kind == "minari"
    np.testing.assert_array_equal(read.episodes[0].observations, np.hstack([columns["y"], columns["z"], columns["b"]]))
    np.testing.assert_array_equal(
        read_minari("other/set-v0", keys=["b", "a/y"]).episodes[0].observations,
        np.hstack([columns["b"], columns["y"]]),
    )
    with pytest.raises(ValueError, match=r"unknown observation entry 'a/x'; allowed are .* did you mean 'a/"):
        read_minari("other/set-v0", keys=["a/x"])


def test_a_box_of_several_axes_is_flattened():
    values = np.arange(30.0).reshape(5, 2, 3)
    foreign_set(spaces.Box(-np.inf, np.inf, (2, 3), np.float64), values)
    np.testing.assert_array_equal(read_minari("other/set-v0").episodes[0].observations, values.reshape(5, 6))


def test_an_observation_that_is_no_box_is_refused():
    foreign_set(spaces.Discrete(3), np.zeros(5, np.int64))
    with pytest.raises(ValueError, match="Discrete; only Box and Dict of Box"):
        read_minari("other/set-v0")


def test_actions_outside_the_space_are_clipped_with_a_count_or_refused():
    actions = np.array([[0, 0], [1.5, -3], [0.5, 1], [1, 2]], np.float32)
    foreign_set(box(1), np.zeros((5, 1)), actions)
    with pytest.warns(UserWarning, match="other/set-v0: 3 of 8 action values lie outside"):
        read = read_minari("other/set-v0")
    np.testing.assert_array_equal(read.actions, np.clip(actions, -1, 1))
    with pytest.raises(ValueError, match=r"3 of 8 .* the first in episode 0"):
        read_minari("other/set-v0", outside="refuse")
    with pytest.raises(ValueError, match="allowed are 'clip', 'refuse'"):
        read_minari("other/set-v0", outside="ignore")


def test_an_unknown_id_names_what_there_is():
    write_minari(make_demonstrations(), "lab/made-up-v0")
    with pytest.raises(ValueError, match=r"it holds lab/made-up-v0; did you mean 'lab/made-up-v0'"):
        read_minari("lab/made-up-v1")


@pytest.mark.parametrize("name", ["no version", "lab/x", "-v0", ""])
def test_an_id_of_another_form_is_refused(name):
    with pytest.raises(ValueError, match="is no Minari id; the form is"):
        read_minari(name)


def test_an_empty_data_set_is_refused(tmp_path):
    folder = write_minari(make_demonstrations(), "lab/empty-v0")
    metadata = folder / "data" / "metadata.json"
    metadata.write_text(json.dumps({**json.loads(metadata.read_text()), "total_episodes": 0}))
    with pytest.raises(ValueError, match="holds no episodes"):
        read_minari("lab/empty-v0")


def test_a_truncated_data_set_is_named():
    file = write_minari(make_demonstrations((300, 300)), "lab/cut-v0") / "data" / "main_data.hdf5"
    file.write_bytes(file.read_bytes()[:5000])
    with pytest.raises(ValueError, match=r"lab/cut-v0/data/main_data.hdf5 is truncated or no complete Minari data set"):
        read_minari("lab/cut-v0")


@pytest.mark.parametrize("lost", ["main_data.hdf5", "metadata.json"])
def test_a_data_set_with_a_file_missing_is_named(lost):
    folder = write_minari(make_demonstrations(), "lab/half-v0")
    (folder / "data" / lost).unlink()
    with pytest.raises(ValueError, match=r"no (complete )?Minari data set"):
        read_minari(folder)


def test_an_existing_data_set_is_replaced_only_when_asked():
    write_minari(make_demonstrations((2,)), "lab/made-up-v0")
    with pytest.raises(ValueError, match="overwrite=true replaces it"):
        write_minari(make_demonstrations((3,)), "lab/made-up-v0")
    assert read_minari("lab/made-up-v0").steps == 2
    write_minari(make_demonstrations((3,)), "lab/made-up-v0", overwrite=True)
    assert read_minari("lab/made-up-v0").steps == 3


def test_a_write_that_fails_leaves_what_was_there(store, monkeypatch):
    write_minari(make_demonstrations((2,)), "lab/made-up-v0")

    def half(episodes, labels):
        yield next(real(episodes, labels))
        raise OSError(28, "No space left on device")

    real = minari_write._buffers
    monkeypatch.setattr(minari_write, "_buffers", half)
    with pytest.raises(OSError, match=r"lab/made-up-v0 could not be written.*No space left"):
        write_minari(make_demonstrations((3, 4)), "lab/made-up-v0", overwrite=True)
    assert read_minari("lab/made-up-v0").steps == 2
    assert [path.name for path in store.iterdir()] == ["lab"]


def test_a_disk_that_is_full_is_said_and_nothing_half_written_is_read(store):
    script = """
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        from mac_policy.demonstrations import write_minari
        from tests.demonstrations.helpers import make_demonstrations
        try:
            write_minari(make_demonstrations([500] * 4), "lab/big-v0")
        except OSError as error:
            print("said:", error)
    """
    root = Path(__file__).parents[2]
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, cwd=root, check=False
    )
    assert "said: lab/big-v0 could not be written to" in run.stdout, run.stderr
    assert local_path("lab/big-v0") is None
    assert local_ids() == []


def test_what_a_killed_writer_leaves_is_no_data_set(store):
    (store / ".incoming-abc" / "data").mkdir(parents=True)
    (store / ".incoming-abc" / "data" / "metadata.json").write_text("{}")
    assert local_ids() == []
    assert list(minari.list_local_datasets()) == []


def test_a_set_whose_writer_was_killed_between_two_renames_is_put_back():
    folder = write_minari(make_demonstrations(), "lab/made-v0")
    folder.rename(folder.with_name(".made-v0-replaced"))
    assert local_ids() == []
    assert local_path("lab/made-v0") == folder
    assert len(read_minari("lab/made-v0")) == 3


def test_the_old_set_of_a_writer_that_was_killed_after_both_renames_is_removed():
    folder = write_minari(make_demonstrations(), "lab/made-v0")
    (folder.with_name(".made-v0-replaced")).mkdir()
    assert local_path("lab/made-v0") == folder
    assert [path.name for path in folder.parent.iterdir() if path.is_dir()] == ["made-v0"]


@pytest.mark.parametrize("text", ["[]", "3", '{"source_kind": 3}', "{"])
def test_metadata_of_another_kind_is_refused_by_name(text):
    folder = write_minari(make_demonstrations(), "lab/made-v0")
    (folder / "data" / "metadata.json").write_text(text)
    with pytest.raises(ValueError, match=r"metadata\.json"):
        read_minari(folder)
