"""The official D4RL file and the relay file, where MAC_DATA names their folder."""

import os
from pathlib import Path

import numpy as np
import pytest

from envs.kitchen.goals import kitchen_completions
from envs.kitchen.task import KitchenTask
from mac_policy.common.digest import file_sha256
from mac_policy.demonstrations import read_d4rl, read_minari, write_minari
from mac_policy.demonstrations.resolve import load

DATA = os.environ.get("MAC_DATA", "")
COMPLETE = Path(DATA) / "d4rl" / "mini_kitchen_microwave_kettle_light_slider-v0.hdf5"
RELAY = Path(DATA) / "relay_kitchen" / "kettle_bottomknob_switch_hinge.hdf5"

pytestmark = pytest.mark.skipif(
    not (DATA and COMPLETE.is_file() and RELAY.is_file()),
    reason="MAC_DATA does not name a folder with the real kitchen files",
)


def test_the_official_file_is_the_published_one():
    assert file_sha256(COMPLETE) == KitchenTask("kitchen-complete").data.official.sha256


@pytest.mark.parametrize("ends", ["auto", "flags", "jumps"])
def test_the_official_file_has_its_episodes(ends):
    demos = read_d4rl(COMPLETE, ends=ends)
    assert (len(demos), demos.steps) == (19, 3680)
    assert (demos.lengths.min(), demos.lengths.max()) == (182, 207)
    assert all(episode.terminations[-1] for episode in demos.episodes)


@pytest.mark.parametrize("ends", ["flags", "jumps"])
def test_the_relay_file_has_its_episodes(ends):
    demos = read_d4rl(RELAY, ends=ends)
    assert (len(demos), demos.steps) == (22, 5402)
    assert (demos.lengths.min(), demos.lengths.max()) == (234, 266)


@pytest.mark.parametrize(
    ("path", "tasks"),
    [
        (COMPLETE, {"microwave", "kettle", "light switch", "slide cabinet"}),
        (RELAY, {"kettle", "bottom burner", "light switch", "hinge cabinet"}),
    ],
)
def test_every_episode_completes_what_its_file_is_named_after(path, tasks):
    select = KitchenTask("kitchen-complete").data.select("qpos")
    demos = read_d4rl(path, select=select, completions=kitchen_completions)
    assert demos.observation_dim == 30
    assert all(set(episode.completed) == tasks for episode in demos.episodes)


def test_the_completions_agree_with_the_rewards_of_the_official_file():
    """There the reward of a step is the number of tasks done so far."""
    demos = read_d4rl(COMPLETE, select=KitchenTask("kitchen-complete").data.select("qpos"))
    for episode in demos.episodes:
        done = np.array(list(kitchen_completions(episode.observations).values()))
        counted = (done[:, None] <= np.arange(len(episode))).sum(axis=0)
        assert np.abs(counted - episode.rewards).max() <= 1
        assert (counted != episode.rewards).sum() <= 4


def test_from_d4rl_over_minari_no_bit_changes(tmp_path, monkeypatch):
    for path in (COMPLETE, RELAY):
        demos = read_d4rl(path, kind="human", completions=lambda o: {"done": len(o)})
        read = read_minari(write_minari(demos, f"real/{path.stem.replace('.', '-')}-v1"))
        assert read.source.sha256 == demos.source.sha256
        assert read.source.kind == "human"
        assert read.observations.tobytes() == demos.observations.tobytes()
        assert read.actions.tobytes() == demos.actions.tobytes()


def test_the_task_finds_the_file_in_its_folder(monkeypatch):
    monkeypatch.setenv("MAC_DATA", DATA)
    demos = load(KitchenTask("kitchen-complete").data, source="human", observation="qpos")
    assert (demos.source.kind, demos.steps, demos.observation_dim) == ("human", 3680, 30)


def test_velocities_are_not_to_be_had_from_d4rl(monkeypatch):
    monkeypatch.setenv("MAC_DATA", DATA)
    with pytest.raises(ValueError, match=r"observation=full .* 59 values an observation, this one has 60"):
        load(KitchenTask("kitchen-complete").data, observation="full")
