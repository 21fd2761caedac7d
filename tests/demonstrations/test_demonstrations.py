from dataclasses import replace

import numpy as np
import pytest

from mac_policy.demonstrations import Demonstrations
from mac_policy.demonstrations.episode import content_sha256
from tests.demonstrations.helpers import make_demonstrations, make_episode


def test_flat_rows_pair_each_action_with_what_was_seen_before_it():
    demos = make_demonstrations((5, 3, 4))
    row = 5 + 2  # the last step of the second episode
    assert demos.observations.shape == (12, 3)
    assert demos.actions.shape == (12, 2)
    np.testing.assert_array_equal(demos.observations[row], demos.episodes[1].observations[2])
    np.testing.assert_array_equal(demos.actions[row], demos.episodes[1].actions[2])
    assert demos.episode_index.tolist() == [0] * 5 + [1] * 3 + [2] * 4


def test_flat_views_are_contiguous_float32_and_made_once():
    demos = make_demonstrations()
    for name in ("observations", "actions", "rewards"):
        view = getattr(demos, name)
        assert view.dtype == np.float32
        assert view.flags.c_contiguous
        assert getattr(demos, name) is view


def test_split_keeps_episodes_whole_and_loses_none():
    demos = make_demonstrations(range(2, 12))
    train, rest = demos.split(0.7, seed=3)
    assert (len(train), len(rest)) == (7, 3)
    parts = [id(episode) for part in (train, rest) for episode in part.episodes]
    assert sorted(parts) == sorted(id(episode) for episode in demos.episodes)
    assert train.source.steps + rest.source.steps == demos.source.steps


def test_split_depends_on_the_seed_alone():
    demos = make_demonstrations([3] * 20)
    first, again, other = (demos.split(0.5, seed)[0] for seed in (0, 0, 1))
    assert content_sha256(first.episodes) == content_sha256(again.episodes)
    assert content_sha256(first.episodes) != content_sha256(other.episodes)


@pytest.mark.parametrize("fraction", [0.01, 0.99])
def test_split_leaves_an_episode_on_each_side(fraction):
    train, rest = make_demonstrations((3, 3)).split(fraction, seed=0)
    assert (len(train), len(rest)) == (1, 1)


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.5, float("nan")])
def test_split_refuses_a_fraction_that_is_none(fraction):
    with pytest.raises(ValueError, match="between 0 and 1"):
        make_demonstrations().split(fraction, seed=0)


def test_split_of_one_episode_is_refused():
    with pytest.raises(ValueError, match="whole episodes"):
        make_demonstrations((5,)).split(0.5, seed=0)


@pytest.mark.parametrize(("history", "horizon"), [(1, 1), (3, 2), (4, 9)])
def test_windows_agree_with_a_loop_over_steps(history, horizon):
    demos = make_demonstrations((5, 1, 4))
    found = demos.windows(history, horizon)
    ends = np.cumsum(demos.lengths)
    for step, episode in enumerate(demos.episode_index):
        first, last = ends[episode] - demos.lengths[episode], ends[episode] - 1
        assert found.history[step].tolist() == [max(first, step - back) for back in range(history)][::-1]
        assert found.horizon[step].tolist() == [min(last, step + ahead) for ahead in range(horizon)]
        assert found.inside[step].tolist() == [step + ahead <= last for ahead in range(horizon)]


@pytest.mark.parametrize("sizes", [{"history": 0}, {"horizon": 0}])
def test_windows_need_a_size(sizes):
    with pytest.raises(ValueError, match="at least 1"):
        make_demonstrations().windows(**sizes)


def test_statistics_are_those_of_the_flat_views():
    demos = make_demonstrations((50, 70))
    found = demos.statistics().actions
    np.testing.assert_allclose(found.mean, demos.actions.mean(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.std, demos.actions.std(0), rtol=1e-5)
    np.testing.assert_array_equal(found.low, demos.actions.min(0))
    np.testing.assert_array_equal(found.high, demos.actions.max(0))


def test_a_constant_dimension_normalises_to_zero():
    observations = np.full((6, 3), 1234.567, np.float32)
    demos = Demonstrations.of([make_episode(observations=observations)], name="still", kind="human")
    moments = demos.statistics().observations
    np.testing.assert_array_equal(moments.std, 1.0)
    np.testing.assert_allclose((demos.observations - moments.mean) / moments.std, 0.0, atol=1e-3)


@pytest.mark.parametrize(
    "change",
    [
        {"observations": np.zeros((6, 3), np.float32)},
        {"actions": np.zeros((5, 2), np.float32)},
        {"rewards": np.zeros(5, np.float32)},
        {"terminations": np.zeros(5, bool)},
        {"truncations": np.ones(5, bool)},
        {"completed": ("kettle",)},
        {"executed": np.zeros((5, 2), np.float32)},
        {"seed": 7},
    ],
)
def test_the_digest_sees_every_field(change):
    episode = make_episode()
    assert content_sha256([episode]) == content_sha256([make_episode()])
    assert content_sha256([replace(episode, **change)]) != content_sha256([episode])


def test_summary_counts_what_was_completed():
    episodes = [make_episode(4, 0, completed=("kettle", "microwave")), make_episode(6, 1, completed=("kettle",))]
    summary = Demonstrations.of(episodes, name="two", kind="human").summary()
    assert summary.completed == {"kettle": 2, "microwave": 1}
    assert summary.completions == {1: 1, 2: 1}
    assert summary.lengths == (4, 5.0, 6)
    assert (summary.episodes, summary.steps) == (2, 10)


def test_source_is_plain_data_for_results():
    entry = make_demonstrations((5, 3)).source.as_dict()
    assert {key: entry[key] for key in ("name", "source", "episodes", "steps")} == {
        "name": "made up",
        "source": "human",
        "episodes": 2,
        "steps": 8,
    }
    assert len(str(entry["sha256"])) == 64


def test_an_empty_data_set_is_refused():
    with pytest.raises(ValueError, match="holds no episodes"):
        Demonstrations.of([], name="nothing", kind="human")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"observations": np.zeros((5, 3), np.float32)}, r"observations has shape \(5, 3\), expected \(6, 3\)"),
        ({"rewards": np.zeros(4, np.float32)}, r"rewards has shape \(4,\)"),
        ({"executed": np.zeros((5, 3), np.float32)}, r"executed has shape \(5, 3\)"),
        ({"actions": np.zeros((0, 2), np.float32)}, "has no steps"),
        ({"actions": np.full((5, 2), np.nan, np.float32)}, r"10 values that are not finite, the first at \[0, 0\]"),
        ({"rewards": np.array([0, 0, np.inf, 0, 0], np.float32)}, r"rewards .* first at \[2\]"),
    ],
)
def test_a_broken_episode_is_named(change, message):
    with pytest.raises(ValueError, match=f"bad, episode 1.*{message}"):
        Demonstrations.of([make_episode(), make_episode(**change)], name="bad", kind="human")


def test_episodes_of_different_widths_are_refused():
    episodes = [make_episode(), make_episode(action_dim=3)]
    with pytest.raises(ValueError, match="episode 1: actions"):
        Demonstrations.of(episodes, name="mixed", kind="human")
