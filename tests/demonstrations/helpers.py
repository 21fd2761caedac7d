"""Made-up demonstrations, as episodes and as D4RL files."""

import os
import time

import h5py
import numpy as np

from mac_policy.demonstrations import Demonstrations, Episode


def make_episode(steps=5, draw=0, observation_dim=3, action_dim=2, **changes):
    rng = np.random.default_rng(draw)
    fields = {
        "observations": rng.normal(size=(steps + 1, observation_dim)).astype(np.float32),
        "actions": rng.uniform(-1, 1, (steps, action_dim)).astype(np.float32),
        "rewards": rng.normal(size=steps).astype(np.float32),
        "terminations": np.arange(steps) == steps - 1,
        "truncations": np.zeros(steps, dtype=bool),
    }
    return Episode(**{**fields, **changes})


def make_demonstrations(lengths=(5, 3, 4), kind="human", **changes):
    episodes = [make_episode(steps, draw, **changes) for draw, steps in enumerate(lengths)]
    return Demonstrations.of(episodes, name="made up", kind=kind)


def write_d4rl(path, lengths=(5, 3, 4), flags="terminals", **changes):
    """A D4RL file whose episodes each walk a line from a start far from the others."""
    steps = sum(lengths)
    starts = np.repeat(10.0 * np.arange(len(lengths)), lengths)
    walk = np.concatenate([0.1 * np.arange(n) for n in lengths])
    ends = np.cumsum(lengths) - 1
    rng = np.random.default_rng(0)
    arrays = {
        "observations": np.stack([starts + walk, walk, np.ones(steps)], axis=1).astype(np.float32),
        "actions": rng.uniform(-1, 1, (steps, 2)).astype(np.float32),
        "rewards": np.zeros(steps, np.float32),
        "terminals": np.isin(np.arange(steps), ends) & (flags == "terminals"),
        "timeouts": np.isin(np.arange(steps), ends) & (flags == "timeouts"),
    }
    with h5py.File(path, "w") as file:
        for key, values in {**arrays, **changes}.items():
            if values is not None:
                file[key] = values
    return path


def record(*, seed, index):
    """A recorder: quick, and different for every seed and index."""
    return make_episode(4 + index % 3, draw=1000 * seed + index, completed=("kettle",) * (index % 2))


def record_slowly(*, seed, index):
    time.sleep(0.15)
    return record(seed=seed, index=index)


def record_until_it_breaks(*, seed, index):
    if str(index) == os.environ.get("BREAK_AT"):
        raise RuntimeError("the simulator fell over")
    return record(seed=seed, index=index)


def die(*, seed, index):
    os._exit(9)
