"""Whether actions are places or offsets shows in what they say of the next observation."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mac_policy import Demonstrations, Episode
from mac_policy.common.correlation import correlation
from mac_policy.demonstrations.inspection import summary_tables
from mac_policy.demonstrations.meaning import DimMeaning, meanings, verdict
from mac_policy.tasks import MinariTask

DATA = os.environ.get("MAC_DATA")


def robot(absolute, episodes=20, steps=50):
    """Two joints that follow commands, reversed in the observation, and a third value that nothing moves."""
    rng, made = np.random.default_rng(0), []
    for _ in range(episodes):
        position, seen, acted = rng.normal(size=2), [], []
        for _ in range(steps):
            seen.append([*position[::-1], rng.normal()])
            goal = 0.7 * position + rng.normal(size=2)
            acted.append(goal if absolute else goal - position)
            position = position + 0.8 * (goal - position)
        seen.append(seen[-1])
        zeros, no = np.zeros(steps, np.float32), np.zeros(steps, bool)
        made.append(Episode(np.float32(seen), np.float32(acted), zeros, no, no))
    return Demonstrations.of(made, name="robot", kind="scripted")


@pytest.mark.parametrize("absolute", [True, False])
def test_places_and_offsets_are_told_apart_and_their_readings_found(absolute):
    found = meanings(robot(absolute))
    assert [each.meaning for each in found] == ["absolute" if absolute else "relative"] * 2
    assert [each.moves for each in found] == [1, 0]


def test_actions_that_say_nothing_of_the_observations_are_unknown():
    demos = robot(True)
    noise = np.random.default_rng(1)
    episodes = [
        replace(episode, actions=noise.normal(size=episode.actions.shape).astype(np.float32))
        for episode in demos.episodes
    ]
    assert {each.meaning for each in meanings(Demonstrations.of(episodes, name="n", kind="scripted"))} == {"unknown"}


def test_correlations_are_numpys_and_zero_for_what_never_varies():
    first, second = (np.random.default_rng(i).normal(size=(30, 3)) for i in (0, 1))
    second[:, 2] = 4.0
    expected = np.corrcoef(first.T, second[:, :2].T)[:3, 3:]
    np.testing.assert_allclose(correlation(first, second)[:, :2], expected)
    np.testing.assert_array_equal(correlation(first, second)[:, 2], 0)


def test_the_table_says_how_many_dims_are_what():
    assert "2 of 2 dims absolute" in str(summary_tables(robot(True))[-1].caption)


@pytest.mark.skipif(not DATA, reason="MAC_DATA is not set")
@pytest.mark.parametrize(
    ("file", "meaning", "least"),
    [
        ("adroit/pen-human-v0.hdf5", "absolute", 20),
        ("d4rl/mini_kitchen_microwave_kettle_light_slider-v0.hdf5", "relative", 7),
    ],
)
def test_the_pens_actions_are_places_and_the_kitchens_are_offsets(file, meaning, least):
    path = Path(str(DATA)) / file
    found = meanings(MinariTask(dataset=str(path)).load_demonstrations(path=path))
    assert sum(each.meaning == meaning for each in found) >= least
    assert {each.meaning for each in found} <= {meaning, "unknown"}
    if meaning == "absolute":
        assert verdict(found) == "absolute"
        assert [each.moves for each in found] == list(range(24))  # the joints of the hand come first in the observation


@pytest.mark.parametrize(
    ("places", "offsets", "meaning"),
    [
        ([0.9, 0.9, 0.5], [0.1, 0.1, 0.2], "absolute"),
        ([0.9, 0.9, 0.2], [0.1, 0.1, 0.5], "unknown"),
        ([0.1, 0.1, 0.2], [0.9, 0.9, 0.3], "relative"),
        ([0.9, 0.5, 0.5], [0.1, 0.2, 0.2], "unknown"),
    ],
)
def test_most_dims_decide_where_all_others_lean_their_way(places, offsets, meaning):
    sure = [
        "absolute" if p > 0.8 else "relative" if o > 0.8 else "unknown" for p, o in zip(places, offsets, strict=True)
    ]
    found = [DimMeaning(i, sure[i], i, places[i], offsets[i]) for i in range(3)]
    assert verdict(found) == meaning
