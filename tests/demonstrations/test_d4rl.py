import numpy as np
import pytest

from mac_policy.demonstrations import read_d4rl
from mac_policy.demonstrations.d4rl import jump_ends
from tests.demonstrations.helpers import write_d4rl


@pytest.mark.parametrize("flags", ["terminals", "timeouts", "none"])
def test_episodes_end_at_flags_or_where_the_observation_jumps(tmp_path, flags):
    demos = read_d4rl(write_d4rl(tmp_path / "a.hdf5", (15, 13, 14), flags))
    assert demos.lengths.tolist() == [15, 13, 14]
    for episode in demos.episodes:
        assert episode.terminations.tolist() == [False] * (len(episode) - 1) + [flags == "terminals"]
        assert episode.truncations.tolist() == [False] * (len(episode) - 1) + [flags != "terminals"]


def test_steps_after_the_last_flag_are_an_episode_too(tmp_path):
    terminals = np.isin(np.arange(12), [4, 7])
    demos = read_d4rl(write_d4rl(tmp_path / "a.hdf5", terminals=terminals))
    assert demos.lengths.tolist() == [5, 3, 4]
    assert demos.episodes[2].truncations[-1]


def test_one_long_walk_is_one_episode(tmp_path):
    assert read_d4rl(write_d4rl(tmp_path / "a.hdf5", (40,), "none")).lengths.tolist() == [40]


def test_a_robot_that_stands_still_does_not_jump():
    assert len(jump_ends(np.zeros((20, 3), np.float32))) == 0


def test_flags_can_be_demanded(tmp_path):
    with pytest.raises(ValueError, match="neither terminals nor timeouts"):
        read_d4rl(write_d4rl(tmp_path / "a.hdf5", flags="none"), ends="flags")


def test_an_unknown_way_to_find_ends_is_refused(tmp_path):
    with pytest.raises(ValueError, match="did you mean 'jumps'"):
        read_d4rl(write_d4rl(tmp_path / "a.hdf5"), ends="jump")


def test_the_last_observation_is_repeated(tmp_path):
    episode = read_d4rl(write_d4rl(tmp_path / "a.hdf5")).episodes[0]
    np.testing.assert_array_equal(episode.observations[-1], episode.observations[-2])


def test_columns_are_selected_by_the_width_of_the_source(tmp_path):
    widths = []
    demos = read_d4rl(write_d4rl(tmp_path / "a.hdf5"), select=lambda width: widths.append(width) or np.array([1, 0]))
    whole = read_d4rl(tmp_path / "a.hdf5")
    assert widths == [3]
    np.testing.assert_array_equal(demos.observations, whole.observations[:, [1, 0]])


def test_completions_come_from_the_selected_observations(tmp_path):
    demos = read_d4rl(write_d4rl(tmp_path / "a.hdf5"), completions=lambda o: {"far": len(o)})
    assert all(episode.completed == ("far",) for episode in demos.episodes)


def test_a_truncated_file_is_named(tmp_path):
    path = write_d4rl(tmp_path / "cut.hdf5", (500, 500))
    path.write_bytes(path.read_bytes()[:9000])
    with pytest.raises(
        ValueError, match=r"cut\.hdf5 is truncated or no hdf5 file, so that it must be downloaded again"
    ):
        read_d4rl(path)


def test_a_file_that_is_no_hdf5_is_named(tmp_path):
    (tmp_path / "a.hdf5").write_text("<html>404</html>")
    with pytest.raises(ValueError, match="is truncated or no hdf5 file"):
        read_d4rl(tmp_path / "a.hdf5")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"actions": None}, "has no array 'actions'; it holds observations"),
        ({"observations": np.zeros((11, 3))}, r"observations has shape \(11, 3\)"),
        ({"observations": np.zeros(12)}, "observations has shape"),
        ({"rewards": np.zeros((12, 1))}, r"rewards has shape \(12, 1\)"),
        ({"actions": np.full((12, 2), np.nan)}, r"a \(.*a\.hdf5\), episode 0: actions has 10 values that are not"),
        ({"actions": np.full((12, 2), "a", dtype="S1")}, "actions is not an array of numbers"),
        ({"actions": np.float32(3)}, "actions is not an array"),
        ({"rewards": np.array([b"a"] * 12)}, "rewards is not an array of numbers"),
        ({"terminals": np.array([b"a"] * 12)}, "terminals is not an array of numbers"),
    ],
)
def test_wrong_content_is_named(tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        read_d4rl(write_d4rl(tmp_path / "a.hdf5", **change))


def test_a_file_without_steps_is_refused(tmp_path):
    empty = {key: np.zeros((0, 2)) for key in ("observations", "actions")}
    flat = dict.fromkeys(("rewards", "terminals", "timeouts"))
    with pytest.raises(ValueError, match="holds no steps"):
        read_d4rl(write_d4rl(tmp_path / "a.hdf5", **empty, **flat))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match="no file at"):
        read_d4rl(tmp_path / "nowhere.hdf5")
